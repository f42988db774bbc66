//! The protocol of the Unix socket at which a recording process answers: the socket's path and its
//! messages. The recorder answers, and `marey` commands ask.
//!
//! A connection carries one request and one answer. A request is a line such as `marey 1 status`.
//! An answer is the line `ok` or `error`, then one line for each fact, with its key and value
//! separated by a tab.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Maximum length of a request, in bytes, with its newline.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// Maximum length of an answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The key of the fact with the path of the run that a ring was saved as.
pub const SAVED: &str = "saved";
/// Key of the fact with the watches of a process: a JSON list of objects.
pub const WATCHES: &str = "watches";
/// Key of the fact with the number of threads that were sampled.
pub const SAMPLED: &str = "sampled";
/// Key of the fact with the last collective of a rank: a JSON object, or `null`.
pub const COLLECTIVE: &str = "collective";
/// The key of the fact with the reason why a setting that was set has no effect yet.
pub const SETTING_NOTE: &str = "note";
/// Prefix of each request, with the version of the protocol.
const PREFIX: &str = "marey 1 ";

/// The longest runtime folder for which the path of a socket fits into the 107 bytes that a Unix
/// socket's address holds.
const MAX_RUNTIME_DIR_BYTES: usize = 77;

/// Returns the folder of the sockets of a user's processes: `marey` in the user's runtime folder
/// (`XDG_RUNTIME_DIR`), or a folder of the user in `/tmp` without one.
pub fn folder(runtime_dir: Option<&Path>, uid: u32) -> PathBuf {
    let is_usable = |path: &&Path| {
        path.is_absolute()
            && path.as_os_str().len() <= MAX_RUNTIME_DIR_BYTES
            && path != &Path::new("/")
    };
    match runtime_dir.filter(is_usable) {
        Some(path) => path.join("marey"),
        None => PathBuf::from(format!("/tmp/marey-{uid}")),
    }
}

/// The process that a socket belongs to. Processes of different containers that share a folder may
/// have equal process ids, so the pid namespace counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// Id of the process as the process itself sees it.
    pub pid: u32,
    /// Inode number of its pid namespace; `None` where the process has no `/proc`.
    pub pid_namespace: Option<u64>,
}

impl SocketOwner {
    /// Returns the name of the socket in its folder.
    pub fn socket_name(self) -> String {
        let Self { pid, pid_namespace } = self;
        match pid_namespace {
            Some(namespace) => format!("{pid}-{namespace}.sock"),
            None => format!("{pid}.sock"),
        }
    }

    /// Returns the process whose socket has this name.
    pub fn from_socket_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".sock")?;
        let Some((pid, namespace)) = stem.split_once('-') else {
            return Some(Self { pid: stem.parse().ok()?, pid_namespace: None });
        };
        Some(Self { pid: pid.parse().ok()?, pid_namespace: Some(namespace.parse().ok()?) })
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The process, its sessions and its losses.
    Status,
    /// Write all that was recorded so far to the files.
    Flush,
    /// Like [`Self::Flush`], and save the ring, if there is one, as a run of its own.
    Save,
    /// Sample the Python stacks of all threads once.
    Sample,
    /// The last collective of `torch.distributed`, as its flight recorder has it.
    Collective,
    /// The values of all settings.
    Settings,
    /// Set a setting to a value.
    Set {
        /// Key or alias of the setting.
        key: String,
        /// Text of the value, which may have spaces.
        value: String,
    },
    /// The watched variables.
    Watches,
    /// Watch variables at a line.
    Watch {
        /// File, line and variables, such as `train.py:120:loss, lr`.
        spec: String,
    },
    /// End watches.
    Unwatch {
        /// The watch to end; all if empty.
        spec: String,
    },
}

impl Request {
    /// Returns the request as a line.
    pub fn to_line(&self) -> String {
        format!("{PREFIX}{}\n", self.words())
    }

    /// Returns the request without the prefix and the end of its line.
    pub fn words(&self) -> String {
        match self {
            Self::Status => "status".to_owned(),
            Self::Flush => "flush".to_owned(),
            Self::Save => "save".to_owned(),
            Self::Sample => "sample".to_owned(),
            Self::Collective => "collective".to_owned(),
            Self::Settings => "settings".to_owned(),
            Self::Set { key, value } => format!("set {key} {value}"),
            Self::Watches => "watches".to_owned(),
            Self::Watch { spec } => format!("watch {spec}"),
            Self::Unwatch { spec } => format!("unwatch {spec}"),
        }
    }

    /// Reads a request, whose newline may be missing. The error is a sentence without a period.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > MAX_REQUEST_BYTES {
            return Err(format!("the request has more than {MAX_REQUEST_BYTES} bytes"));
        }
        let line = std::str::from_utf8(line).map_err(|_invalid| "the request is not UTF-8")?;
        let line = line.strip_suffix('\n').unwrap_or(line);
        let words = line.strip_prefix(PREFIX).ok_or("the request does not begin with `marey 1`")?;
        if let Some(spec) = words.strip_prefix("watch ") {
            return Ok(Self::Watch { spec: spec.to_owned() });
        }
        if let Some(spec) = words.strip_prefix("unwatch ") {
            return Ok(Self::Unwatch { spec: spec.to_owned() });
        }
        match *words.splitn(3, ' ').collect::<Vec<_>>() {
            ["status"] => Ok(Self::Status),
            ["flush"] => Ok(Self::Flush),
            ["save"] => Ok(Self::Save),
            ["sample"] => Ok(Self::Sample),
            ["collective"] => Ok(Self::Collective),
            ["settings"] => Ok(Self::Settings),
            ["watches"] => Ok(Self::Watches),
            ["set", key, value] => Ok(Self::Set { key: key.to_owned(), value: value.to_owned() }),
            _ => Err("the request is not one that this version of marey knows".to_owned()),
        }
    }
}

/// The facts of an answer, as keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(pub Vec<(String, String)>);

impl Facts {
    /// Adds a fact.
    pub fn add(&mut self, key: impl Into<String>, value: impl Display) {
        self.0.push((key.into(), format!("{value}")));
    }

    /// Returns the first value with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// Returns an answer as text. An error is a sentence without a period.
pub fn format_answer(answer: &Result<Facts, String>) -> String {
    let line = |(key, value): &(String, String)| format!("{}\t{}\n", escape(key), escape(value));
    match answer {
        Ok(facts) => "ok\n".to_owned() + &facts.0.iter().map(line).collect::<String>(),
        Err(message) => format!("error\nmessage\t{}\n", escape(message)),
    }
}

/// Reads an answer. `None` if the text is not an answer, or incomplete.
pub fn parse_answer(text: &str) -> Option<Result<Facts, String>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let is_ok = match lines.next()? {
        "ok" => true,
        "error" => false,
        _ => return None,
    };
    let facts = lines.map(|line| {
        let (key, value) = line.split_once('\t')?;
        Some((unescape(key), unescape(value)))
    });
    let facts = Facts(facts.collect::<Option<_>>()?);
    if is_ok { Some(Ok(facts)) } else { Some(Err(facts.get("message")?.to_owned())) }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn unescape(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        unescaped.push(match char {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        use Request::{Collective, Flush, Sample, Save, Settings, Status};
        let set = Request::Set { key: "sample.scope".to_owned(), value: "load data".to_owned() };
        for request in [Status, Flush, Save, Sample, Collective, Settings, set] {
            assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
        }
        let spec = || "a b.py:7:x, y[0]".to_owned();
        for request in [
            Request::Watches,
            Request::Watch { spec: spec() },
            Request::Unwatch { spec: spec() },
            Request::Unwatch { spec: String::new() },
        ] {
            assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
        }
    }

    #[test]
    fn a_line_that_is_no_request_is_refused_with_its_reason() {
        for (line, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], "does not begin"),
            (b"marey 2 status\n", "does not begin"),
            (b"marey 1 \xff\n", "UTF-8"),
            (b"marey 1 eval 1\n", "knows"),
            (b"marey 1 set a\n", "knows"),
            (b"marey 1 sample 1\n", "knows"),
            (b"", "does not begin"),
            (&[b'a'; MAX_REQUEST_BYTES + 1], "4096 bytes"),
        ] {
            let message = Request::parse(line).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_longest_request_is_read() {
        let request = Request::Watch { spec: String::new() };
        let spec = "a".repeat(MAX_REQUEST_BYTES - request.to_line().len());
        let request = Request::Watch { spec };
        assert_eq!(request.to_line().len(), MAX_REQUEST_BYTES);
        assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written_whatever_its_values_contain() {
        let mut facts = Facts::default();
        facts.add("path", "a\tb\\n\n\\");
        facts.add("step", 7);
        facts.add("", "");
        assert_eq!([facts.get("step"), facts.get("path")], [Some("7"), Some("a\tb\\n\n\\")]);
        for answer in [Ok(facts), Ok(Facts::default()), Err("no\n such".to_owned())] {
            assert_eq!(parse_answer(&format_answer(&answer)), Some(answer));
        }
        for torn in ["", "ok", "ok\nstep", "error\n", "yes\n", "ok\nstep\n"] {
            assert_eq!(parse_answer(torn), None, "{torn}");
        }
    }

    #[test]
    fn each_input_of_the_fuzz_corpus_is_read_as_it_is_written_or_refused() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/endpoint");
        let mut are_read = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            if let Ok(request) = Request::parse(&bytes) {
                assert_eq!(Request::parse(request.to_line().as_bytes()), Ok(request));
                are_read += 1;
            }
            if let Some(answer) = std::str::from_utf8(&bytes).ok().and_then(parse_answer) {
                assert_eq!(parse_answer(&format_answer(&answer)), Some(answer));
                are_read += 1;
            }
        }
        assert!(are_read >= 4, "{are_read}");
    }

    #[test]
    fn sockets_are_in_the_runtime_folder_if_their_path_fits() {
        assert_eq!(folder(Some(Path::new("/run/user/7")), 7), Path::new("/run/user/7/marey"));
        let long = format!("/{}", "x".repeat(MAX_RUNTIME_DIR_BYTES));
        for unusable in [None, Some("run"), Some("/"), Some(""), Some(&long)] {
            assert_eq!(folder(unusable.map(Path::new), 7), Path::new("/tmp/marey-7"));
        }
        let longest = Path::new("/").join("x".repeat(MAX_RUNTIME_DIR_BYTES - 1));
        let owner = SocketOwner { pid: 4_194_304, pid_namespace: Some(u32::MAX.into()) };
        let path = folder(Some(&longest), 7).join(owner.socket_name());
        assert_eq!(path.as_os_str().len(), 107);
    }

    #[test]
    fn the_name_of_a_socket_states_its_process() {
        for pid_namespace in [None, Some(4_026_531_836)] {
            let owner = SocketOwner { pid: 4242, pid_namespace };
            assert_eq!(SocketOwner::from_socket_name(&owner.socket_name()), Some(owner));
        }
        for foreign in ["4242.sock.new", "4242-.sock", "-7.sock", "x.sock"] {
            assert_eq!(SocketOwner::from_socket_name(foreign), None);
        }
    }
}
