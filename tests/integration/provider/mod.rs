//! A provider of models on the loopback, for the real agents. It speaks Anthropic's Messages API and OpenAI's Responses
//! API, and answers what the test has written down:
//!
//!     let provider = Provider::start([
//!         vec![Answer::Refuse { status: 429, words: "Too many.", headers: &[("retry-after", "1")] }],
//!         vec![Answer::Does(Act::Run("touch done")), Answer::Does(Act::Say("Done."))],
//!     ]);
//!
//! Each list is one conversation: one process of an agent, known by the number that it sends along. The last list is
//! for all further ones. Within a conversation the answer depends on how many results of tools the agent has sent back,
//! not on how often it has asked: an agent that tries again gets the same answer again.

mod anthropic;
mod asking;
mod http;
mod openai;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use self::http::Request;
use crate::harness::wait_until;

/// What the model does in its turn.
#[derive(Debug)]
pub(crate) enum Act {
    /// Says something, and nothing remains to do.
    Say(&'static str),
    /// Runs a command with the shell tool.
    Run(&'static str),
    /// Writes a new file with the tool for that.
    Write { file: PathBuf, text: &'static str },
}

#[derive(Debug)]
pub(crate) enum Answer {
    Does(Act),
    Refuse {
        status: u16,
        words: &'static str,
        headers: &'static [(&'static str, &'static str)],
    },
    /// Says this, and then nothing for ever, although the turn has not ended.
    Stall {
        words: &'static str,
        at: Stall,
    },
}

/// Where a stream stops.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stall {
    /// All words are sent, but not that they are all.
    InTheWords,
    /// The words are complete: the agent shows them.
    AfterTheWords,
}

/// What an agent has asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// The conversation that it belongs to, counted from 0. `None`: it asks for something beside its task.
    pub(crate) conversation: Option<usize>,
    /// What its tools have answered so far.
    pub(crate) results: Vec<String>,
}

pub(crate) struct Provider {
    pub(crate) url: String,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    /// The numbers of the conversations, in the order of their beginning.
    conversations: Vec<String>,
    asked: Vec<Asked>,
    stalled: usize,
}

impl Provider {
    pub(crate) fn start<I: IntoIterator<Item = Vec<Answer>>>(script: I) -> Self {
        let script: Arc<Vec<_>> = Arc::new(script.into_iter().collect());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let provider = Provider {
            url: format!("http://{}", listener.local_addr().unwrap()),
            record: Arc::default(),
        };
        let record = provider.record.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, record) = (script.clone(), record.clone());
                thread::spawn(move || serve(&stream, &script, &record));
            }
        });
        provider
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.record.lock().unwrap().asked.clone()
    }

    /// How many processes of an agent have worked at their task.
    pub(crate) fn conversations(&self) -> usize {
        self.record.lock().unwrap().conversations.len()
    }

    /// Waits until an agent listens to a stream in which nothing more comes.
    pub(crate) fn wait_for_stall(&self) {
        wait_until("a stream that has stalled", || {
            (self.record.lock().unwrap().stalled > 0).then_some(())
        });
    }
}

#[derive(Clone, Copy)]
enum Api {
    Anthropic,
    OpenAi,
}

impl Api {
    fn of(request: &Request) -> Option<Api> {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/messages") => Some(Api::Anthropic),
            ("POST", "/v1/responses") => Some(Api::OpenAi),
            _ => None,
        }
    }

    fn conversation(self) -> &'static str {
        match self {
            Api::Anthropic => anthropic::CONVERSATION,
            Api::OpenAi => openai::CONVERSATION,
        }
    }

    fn results(self, body: &Value) -> Vec<String> {
        match self {
            Api::Anthropic => anthropic::results(body),
            Api::OpenAi => openai::results(body),
        }
    }

    fn turn(self, act: &Act, body: &Value) -> Vec<Value> {
        match self {
            Api::Anthropic => anthropic::turn(act, body),
            Api::OpenAi => openai::turn(act, body),
        }
    }

    fn end_of_words(self) -> &'static str {
        match self {
            Api::Anthropic => anthropic::END_OF_WORDS,
            Api::OpenAi => openai::END_OF_WORDS,
        }
    }

    fn aside(self) -> Value {
        match self {
            Api::Anthropic => anthropic::aside(),
            Api::OpenAi => openai::aside(),
        }
    }

    fn error(self, status: u16, words: &str) -> Value {
        match self {
            Api::Anthropic => anthropic::error(status, words),
            Api::OpenAi => openai::error(status, words),
        }
    }
}

fn serve(stream: &TcpStream, script: &[Vec<Answer>], record: &Mutex<Record>) {
    let Some(request) = Request::read(stream) else {
        return;
    };
    let api = Api::of(&request);
    // A model that shall work gets tools. One that shall find a title, or a word for the status line, gets none.
    let is_task = request.body["tools"]
        .as_array()
        .is_some_and(|tools| !tools.is_empty());
    let results = api.map_or_else(Vec::new, |api| api.results(&request.body));
    let conversation = api.filter(|_| is_task).map(|api| {
        let number = request.header(api.conversation()).unwrap_or_default();
        let mut record = record.lock().unwrap();
        let known = record.conversations.iter().position(|one| one == number);
        known.unwrap_or_else(|| {
            record.conversations.push(number.to_owned());
            record.conversations.len() - 1
        })
    });
    record.lock().unwrap().asked.push(Asked {
        path: request.path.clone(),
        conversation,
        results: results.clone(),
    });
    let (Some(api), Some(conversation)) = (api, conversation) else {
        return answer_aside(stream, &request, api);
    };
    let turns = &script[conversation.min(script.len() - 1)];
    match &turns[results.len().min(turns.len() - 1)] {
        Answer::Does(act) => http::events(stream, &api.turn(act, &request.body)),
        Answer::Refuse {
            status,
            words,
            headers,
        } => http::document(stream, *status, headers, &api.error(*status, words)),
        Answer::Stall { words, at } => {
            let mut events = api.turn(&Act::Say(words), &request.body);
            let end = events
                .iter()
                .position(|event| event["type"] == api.end_of_words());
            let sent = match at {
                Stall::InTheWords => end.unwrap(),
                Stall::AfterTheWords => end.unwrap() + 1,
            };
            events.truncate(sent);
            http::events(stream, &events);
            record.lock().unwrap().stalled += 1;
            http::hang(stream);
        }
    }
}

/// Answers what is not the task, and harmlessly.
fn answer_aside(stream: &TcpStream, request: &Request, api: Option<Api>) {
    match api {
        Some(api) if request.body["stream"] == true => {
            http::events(stream, &api.turn(&Act::Say("A task"), &request.body));
        }
        Some(api) => http::document(stream, 200, &[], &api.aside()),
        None if request.path == "/v1/messages/count_tokens" => {
            http::document(stream, 200, &[], &json!({"input_tokens": 17120}));
        }
        // Whether anybody is here.
        None if request.method == "HEAD" => http::document(stream, 200, &[], &Value::Null),
        None => http::document(stream, 404, &[], &json!({"error": {"message": "not here"}})),
    }
}

/// Words as they come in a stream: in pieces, and a promise in two.
fn pieces(words: &str) -> impl Iterator<Item = &str> {
    words.split_inclusive([' ', '/'])
}
