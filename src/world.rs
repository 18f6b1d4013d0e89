//! What is read of the world once, at the start, and handed down from there.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::host::{Clock, Console};

#[derive(Debug)]
pub struct World {
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<String, String>,
    pub clock: Clock,
    pub console: Console,
}
