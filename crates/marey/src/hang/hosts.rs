//! `marey hang` on other hosts, by the ssh of the user.
//!
//! ssh must not ask for anything (`BatchMode`). The command line has the name of the job and options, no
//! secrets.

use std::io::ErrorKind;
use std::process::{Child, Command, Output, Stdio};

use marey_attach::hang::Hang;

use super::HangArgs;
use crate::output::Failure;
use crate::text::printable;

/// Options of ssh: no questions, and an end for a host that is gone.
const SSH_OPTIONS: [&str; 4] =
    ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"];
/// Characters beside letters and digits that a shell reads as they are.
const PLAIN: &str = "-_./:,@%+=";

/// The answer of a host, on its way.
pub(super) struct Pending(Result<Child, String>);

/// Asks the hosts of the arguments for the ranks of a job, all at the same time. Returns them with
/// their names.
pub(super) fn ask(args: &HangArgs, job: Option<&str>) -> Result<Vec<(String, Pending)>, Failure> {
    let Some(job) = job else { return Ok(Vec::new()) };
    let hosts = || args.hosts.iter().map(|host| host.trim());
    // ssh would read it as an option.
    let is_invalid = |host: &&str| host.is_empty() || host.starts_with('-');
    if let Some(host) = hosts().find(is_invalid) {
        return Err(Failure {
            message: format!("`{}` is not the name of a host", printable(host)),
            hint: Some("name hosts as ssh knows them: --hosts node2,node3".to_owned()),
        });
    }
    let line = remote_line(args, job);
    Ok(hosts().map(|host| (host.to_owned(), Pending(start(host, &line)))).collect())
}

fn start(host: &str, line: &str) -> Result<Child, String> {
    let mut command = Command::new("ssh");
    for option in SSH_OPTIONS {
        command.args(["-o", option]);
    }
    command.args(["--", host, line]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no ssh on this machine".to_owned(),
        _ => format!("ssh cannot be started: {error}"),
    })
}

/// Returns the command for the shell of a host.
fn remote_line(args: &HangArgs, job: &str) -> String {
    let interval = format!("--interval={}", args.interval);
    let job = format!("--job={job}");
    let mut words = vec![&*args.remote_marey, "hang", "--json", &interval, &job];
    if args.native {
        words.push("--native");
    }
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns a word as a POSIX shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Pending {
    /// Waits for the answer. An error is the reason for which there is none.
    pub(super) fn wait(self) -> Result<Hang, String> {
        let output = self.0?.wait_with_output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(reason(&output));
        }
        serde_json::from_slice(&output.stdout).map_err(|_invalid| {
            "its marey answers in another form: is it another version?".to_owned()
        })
    }
}

/// Returns the error among the lines that a command has printed, else the last line.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("error: "));
    match error.or_else(|| lines().next_back()) {
        Some(line) => line.to_owned(),
        None => format!("ssh: {}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_the_shell() {
        assert_eq!(quoted("node1:29500"), "node1:29500");
        assert_eq!(quoted("[::1]:29500"), "'[::1]:29500'");
        assert_eq!(quoted("a b; 'c'"), r"'a b; '\''c'\'''");
        assert_eq!(quoted(""), "''");
    }
}
