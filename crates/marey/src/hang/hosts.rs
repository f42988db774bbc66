//! Runs `marey hang` on other hosts by the ssh of the user, and collects the answers.
//!
//! ssh must not ask for a password (`BatchMode`). The command line has the name of the job and
//! options, and no secrets.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use marey_attach::hang::Hang;
use marey_store::temp_file;

use super::HangArgs;
use crate::output::Failure;
use crate::text::printable;

/// Options of ssh. They forbid questions, and end the connection to a host that is gone.
const SSH_OPTIONS: [&str; 4] =
    ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"];
/// The characters besides letters and digits that need no quotes in a shell.
const UNQUOTED_PUNCTUATION: &str = "-_./:,@%+=";
/// The time between two checks whether ssh has ended.
const POLL_PERIOD: Duration = Duration::from_millis(10);

/// The answer of a host that has not arrived yet.
pub(super) struct PendingAnswer {
    ssh: Result<Ssh, String>,
    start: Instant,
    timeout: Duration,
}

/// A running ssh. It writes to files and not to pipes, because a process that it leaves in the
/// background may keep a pipe open.
struct Ssh {
    child: Child,
    stdout: File,
    stderr: File,
}

/// Begins to ask all hosts of the arguments for the ranks of a job. Returns the name of each host
/// with its pending answer.
pub(super) fn ask_hosts(
    args: &HangArgs,
    job: Option<&str>,
    timeout: Duration,
) -> Result<Vec<(String, PendingAnswer)>, Failure> {
    let Some(job) = job else { return Ok(Vec::new()) };
    let hosts = || args.hosts.iter().map(|host| host.trim());
    // ssh would read a name with a leading `-` as an option.
    let is_invalid = |host: &&str| host.is_empty() || host.starts_with('-');
    if let Some(host) = hosts().find(is_invalid) {
        return Err(Failure {
            message: format!("`{}` is not the name of a host", printable(host)),
            hint: Some("name hosts as ssh knows them: --hosts node2,node3".to_owned()),
        });
    }
    let command = remote_command(args, job);
    let start = Instant::now();
    let start_asking = |host| PendingAnswer { ssh: Ssh::start(host, &command), start, timeout };
    Ok(hosts().map(|host| (host.to_owned(), start_asking(host))).collect())
}

/// Returns the command line for the shell of a host.
fn remote_command(args: &HangArgs, job: &str) -> String {
    let interval = format!("--interval={}", args.interval);
    let job = format!("--job={job}");
    let mut words = vec![&*args.remote_marey, "hang", "--json", &interval, &job];
    if args.native {
        words.push("--native");
    }
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns a word, in quotes if a POSIX shell needs them.
fn quoted(word: &str) -> String {
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || UNQUOTED_PUNCTUATION.contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl PendingAnswer {
    /// Waits for the answer until the timeout. The error is the reason why there is no answer.
    pub(super) fn wait(self) -> Result<Hang, String> {
        let mut ssh = self.ssh?;
        let Some(status) = ssh.wait(self.start, self.timeout)? else {
            return Err(format!("no answer within {} s", self.timeout.as_secs_f64()));
        };
        if !status.success() {
            return Err(failure_reason(status, &contents(ssh.stderr)?));
        }
        serde_json::from_slice(&contents(ssh.stdout)?).map_err(|_invalid| {
            "its marey answers in another form: is it another version?".to_owned()
        })
    }
}

impl Ssh {
    fn start(host: &str, remote_command: &str) -> Result<Self, String> {
        let mut ssh = Command::new("ssh");
        for option in SSH_OPTIONS {
            ssh.args(["-o", option]);
        }
        ssh.args(["--", host, remote_command]).stdin(Stdio::null());
        let duplicated_file = || {
            let file = temp_file()?;
            Ok((file.try_clone()?, file))
        };
        let cannot_write = |error: io::Error| format!("no temporary file: {error}");
        let (to_stdout, stdout) = duplicated_file().map_err(cannot_write)?;
        let (to_stderr, stderr) = duplicated_file().map_err(cannot_write)?;
        let child = ssh.stdout(to_stdout).stderr(to_stderr).spawn();
        let child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => "there is no ssh on this machine".to_owned(),
            _ => format!("ssh cannot be started: {error}"),
        })?;
        Ok(Self { child, stdout, stderr })
    }

    /// Waits until ssh has ended. If `timeout` has passed since `start`, kills it and returns
    /// `None`.
    fn wait(&mut self, start: Instant, timeout: Duration) -> Result<Option<ExitStatus>, String> {
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(Some(status));
            }
            let time_left = timeout.saturating_sub(start.elapsed());
            if time_left.is_zero() {
                // Errors are ignored, because it may have ended meanwhile.
                drop(self.child.kill());
                drop(self.child.wait());
                return Ok(None);
            }
            thread::park_timeout(time_left.min(POLL_PERIOD));
        }
    }
}

fn contents(mut file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Returns the line with an error that a command has printed, else its last line.
fn failure_reason(status: ExitStatus, stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let marey_error = lines().find_map(|line| line.strip_prefix("error: "));
    match marey_error.or_else(|| lines().next_back()) {
        Some(line) => line.to_owned(),
        None => format!("ssh: {status}"),
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
