//! A registry of npm packages with a few packages in it, for the agents that are installed from there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

pub(super) struct Registry {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A package whose program is a shell script.
pub(super) struct Released<'a> {
    pub(super) package: &'a str,
    pub(super) program: &'a str,
    pub(super) version: &'a str,
    pub(super) script: &'a str,
    /// What is run when it has been installed.
    pub(super) postinstall: &'a str,
}

impl Registry {
    pub(super) fn with(packages: &[Released]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut answers = BTreeMap::new();
        for one in packages {
            let (document, tarball) = one.published(&url);
            answers.insert(format!("/{}", one.package), document);
            answers.insert(format!("/{}.tgz", one.program), tarball);
        }
        let registry = Registry {
            url,
            asked: Arc::default(),
        };
        let asked = registry.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (path, mut stream) = request(stream.unwrap());
                asked.lock().unwrap().push(path.clone());
                let (status, body) = match answers.get(&path.replace("%2f", "/")) {
                    Some(answer) => ("200 OK", &answer[..]),
                    None => ("404 Not Found", &b"{}"[..]),
                };
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\nConnection: close\r\n\r\n"
                )
                .unwrap();
                stream.write_all(body).ok();
            }
        });
        registry
    }

    /// What npm has asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Released<'_> {
    /// What the registry says about it, and the package itself.
    fn published(&self, url: &str) -> (Vec<u8>, Vec<u8>) {
        let mut manifest = serde_json::json!({
            "name": self.package,
            "version": self.version,
            "bin": {self.program: "agent.sh"},
        });
        if !self.postinstall.is_empty() {
            manifest["scripts"] = serde_json::json!({"postinstall": self.postinstall});
            manifest["hasInstallScript"] = true.into();
        }
        let tarball = tarball(&manifest.to_string(), self.script);
        let mut released = manifest;
        let address = format!("{url}/{}.tgz", self.program);
        released["dist"] = serde_json::json!({"tarball": address});
        let document = serde_json::json!({
            "name": self.package,
            "dist-tags": {"latest": self.version},
            "versions": {self.version: released},
        });
        (document.to_string().into(), tarball)
    }
}

fn request(stream: TcpStream) -> (String, TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        line.clear();
    }
    (path, stream)
}

fn tarball(manifest: &str, script: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("package.json"), manifest).unwrap();
    std::fs::write(package.join("agent.sh"), script).unwrap();
    let packed = Command::new("tar")
        .args(["-czf", "-", "-C"])
        .arg(folder.path())
        .arg("package")
        .output()
        .unwrap();
    assert!(packed.status.success());
    packed.stdout
}
