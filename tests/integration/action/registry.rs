//! A registry of npm packages with one package in it, for the agent that is installed from there.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

pub(super) struct Registry {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    /// Serves a package whose program is a shell script.
    pub(super) fn with(package: &str, program: &str, version: &str, script: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let manifest = serde_json::json!({
            "name": package,
            "version": version,
            "bin": {program: "agent.sh"},
        });
        let tarball = tarball(&manifest.to_string(), script);
        let mut released = manifest;
        released["dist"] = serde_json::json!({"tarball": format!("{url}/agent.tgz")});
        let document = serde_json::json!({
            "name": package,
            "dist-tags": {"latest": version},
            "versions": {version: released},
        });
        let registry = Registry {
            url,
            asked: Arc::default(),
        };
        let asked = registry.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (path, mut stream) = request(stream.unwrap());
                asked.lock().unwrap().push(path.clone());
                let (status, body) = match path.as_str() {
                    "/agent.tgz" => ("200 OK", tarball.clone()),
                    path if path.starts_with("/@") => ("200 OK", document.to_string().into()),
                    _ => ("404 Not Found", b"{}".to_vec()),
                };
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\nConnection: close\r\n\r\n"
                )
                .unwrap();
                stream.write_all(&body).ok();
            }
        });
        registry
    }

    /// What npm has asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
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
