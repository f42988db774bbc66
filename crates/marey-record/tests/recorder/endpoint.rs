//! The Unix socket of a recording process, from the side of its peers.

use crate::harness::{
    Fixture, Subprocess, fork, report_ready, run_in_subprocess, scope, start,
    wait_for_end_of_stdin, wait_until, wait_until_ready,
};
use marey_model::endpoint::{Facts, MAX_REQUEST_BYTES, Request, SocketOwner, folder, parse_answer};
use marey_record::{Format, api};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[expect(unsafe_code, reason = "std has no user id")]
fn uid() -> u32 {
    // SAFETY: a system call without arguments that always succeeds.
    unsafe { libc::geteuid() }
}

#[expect(clippy::disallowed_methods, reason = "no thread sets a variable in a test")]
fn own_socket() -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    let in_runtime_dir = folder(runtime_dir.as_deref().map(Path::new), uid());
    [in_runtime_dir, folder(None, uid())]
        .into_iter()
        .map(|folder| folder.join(socket_name(std::process::id())))
        .find(|path| path.exists())
        .unwrap_or_default()
}

fn socket_name(pid: u32) -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").expect("a namespace").ino();
    SocketOwner { pid, pid_namespace: Some(namespace) }.socket_name()
}

/// Removes the socket that a killed process of the same id may have left.
fn remove_socket_of_killed_process() {
    drop(fs::remove_file(own_socket()));
}

/// Sends bytes and returns the answer, empty if the process closed the connection without one.
fn send(path: &Path, bytes: &[u8]) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(bytes)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(|_| answer)
}

/// Sends a request to this process until it answers: it may be about to open its socket.
pub(crate) fn ask_self(request: &Request) -> Result<Facts, String> {
    let mut answer = None;
    wait_until("the process does not answer", || {
        let text = send(&own_socket(), request.to_line().as_bytes()).unwrap_or_default();
        answer = parse_answer(&text);
        answer.is_some()
    });
    answer.unwrap()
}

fn set(key: &str, value: &str) -> Request {
    Request::Set { key: key.to_owned(), value: value.to_owned() }
}

#[test]
fn a_recording_process_states_its_sessions_and_its_losses() {
    let fixture = Fixture::begin();
    let session = fixture.start("profile");
    api::count_unmatched_exit();
    scope("work", || ());
    let facts = ask_self(&Request::Status).unwrap();
    let path = fixture.path("profile.hatchet");
    assert_eq!(facts.get("pid"), Some(&*std::process::id().to_string()));
    assert_eq!(facts.get(&format!("session.{session}.file")), path.to_str());
    assert_eq!(facts.get(&format!("session.{session}.active")), Some("true"));
    assert_eq!(facts.get("loss.unmatched_exits"), Some("1"));
    assert!(facts.get("events").unwrap().parse::<u64>().unwrap() >= 2);
    api::deactivate(session).unwrap();
    let facts = ask_self(&Request::Status).unwrap();
    assert_eq!(facts.get(&format!("session.{session}.active")), Some("false"));
}

#[test]
fn steps_are_counted_when_they_end() {
    let (_fixture, _session) = Fixture::with_session();
    let steps =
        || ask_self(&Request::Status).unwrap().get("steps").unwrap().parse::<u64>().unwrap();
    let before = steps();
    api::step_begin();
    assert_eq!(steps(), before);
    api::step_end();
    assert_eq!(steps(), before + 1);
}

#[test]
fn a_flush_writes_what_was_recorded_so_far() {
    let fixture = Fixture::begin();
    fixture.start("profile");
    scope("work", || ());
    assert_eq!(fixture.files(), [""; 0]);
    ask_self(&Request::Flush).unwrap();
    assert!(fs::read_to_string(fixture.path("profile.hatchet")).unwrap().contains("\"work\""));
}

#[test]
fn a_setting_is_changed_by_its_key_or_alias_and_refused_with_a_reason() {
    let (_fixture, _session) = Fixture::with_session();
    let facts = ask_self(&set("checkpoint.interval", "2.5")).unwrap();
    assert_eq!(facts.get("checkpoint.interval"), Some("2.5"));
    let facts = ask_self(&set("probing.torch.profiling", "on")).unwrap();
    assert_eq!(facts.get("torch.operators"), Some("on"));
    ask_self(&set("torch.operators", "off")).unwrap();
    let message = ask_self(&set("checkpoint.interval", "-1")).unwrap_err();
    assert_eq!(message, "`checkpoint.interval` is a number from 0 to 86400 s, not `-1`");
    assert_eq!(ask_self(&set("no.such", "1")).unwrap_err(), "there is no setting `no.such`");
    assert_eq!(ask_self(&Request::Settings).unwrap().get("checkpoint.interval"), Some("2.5"));
    ask_self(&set("checkpoint.interval", "10")).unwrap();
}

#[test]
fn the_limit_of_nodes_holds_for_threads_that_begin_after_it_was_set() {
    let (_fixture, session) = Fixture::with_session();
    ask_self(&set("tree.max_nodes", "2")).unwrap();
    crate::harness::on_thread("limited", || {
        for name in ["a", "b", "c"] {
            scope(name, || ());
        }
    });
    ask_self(&set("tree.max_nodes", "1000000")).unwrap();
    let facts = ask_self(&Request::Status).unwrap();
    assert!(facts.get("loss.nodes").is_some(), "{facts:?}");
    api::discard(session).unwrap();
}

#[test]
fn the_socket_is_there_while_a_session_is_alive_in_a_folder_of_the_user_alone() {
    let fixture = Fixture::begin();
    remove_socket_of_killed_process();
    assert_eq!(own_socket(), Path::new(""));
    let first = fixture.start("first");
    let second = fixture.start("second");
    ask_self(&Request::Status).unwrap();
    let folder = own_socket().parent().unwrap().to_owned();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    api::discard(first).unwrap();
    ask_self(&Request::Status).unwrap();
    api::finalize(second, None).unwrap();
    assert_eq!(own_socket(), Path::new(""));
    fixture.start("third");
    ask_self(&Request::Status).unwrap();
}

#[test]
fn a_request_that_is_malformed_too_long_or_never_sent_is_refused_and_the_next_one_answered() {
    let (_fixture, _session) = Fixture::with_session();
    ask_self(&Request::Status).unwrap();
    let too_long = [vec![b'a'; MAX_REQUEST_BYTES + 1], vec![b'\n']].concat();
    for bytes in
        [b"GET / HTTP/1.1\r\n".as_slice(), b"\xff\n", &too_long, b"marey 1 eval print(1)\n"]
    {
        // A connection that is closed before all was read ends by a reset.
        let answer = send(&own_socket(), bytes).unwrap_or_default();
        assert!(answer.is_empty() || answer.starts_with("error\n"), "{answer}");
    }
    let silent = UnixStream::connect(own_socket()).unwrap();
    let mut unfinished = UnixStream::connect(own_socket()).unwrap();
    unfinished.write_all(b"marey 1 sta").unwrap();
    ask_self(&Request::Status).unwrap();
    drop((silent, unfinished));
}

/// Returns how many bytes the peer of a socket has not read yet.
#[expect(unsafe_code, reason = "std has no ioctl(2)")]
fn unread_bytes(stream: &UnixStream) -> i32 {
    let mut bytes = 0;
    // SAFETY: writes an integer.
    assert_eq!(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }, 0);
    bytes
}

#[test]
fn a_silent_peer_does_not_delay_the_end_of_a_session() {
    let (_fixture, session) = Fixture::with_session();
    ask_self(&Request::Status).unwrap();
    let mut silent = UnixStream::connect(own_socket()).unwrap();
    silent.write_all(b"marey 1 sta").unwrap();
    wait_until("the request is not read", || unread_bytes(&silent) == 0);
    let started = Instant::now();
    api::finalize(session, None).unwrap();
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_millis(500), "{elapsed:?}");
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "no answer");
}

#[test]
fn every_request_is_one_of_ten() {
    let fixture = Fixture::begin();
    let session = fixture.start("profile");
    ask_self(&Request::Status).unwrap();
    let words = ["status", "flush", "save", "settings", "set spool.max_bytes 17179869184"];
    for word in words {
        let answer = send(&own_socket(), format!("marey 1 {word}\n").as_bytes()).unwrap();
        assert!(answer.starts_with("ok\n"), "{word}: {answer}");
    }
    // Python answers these.
    for word in ["watches", "watch train.py:1:x", "unwatch "] {
        let answer = send(&own_socket(), format!("marey 1 {word}\n").as_bytes()).unwrap();
        assert!(answer.contains("no Python records"), "{word}: {answer}");
    }
    for word in [
        "stop",
        "eval 1",
        "load x.so",
        "flush /etc/passwd",
        "set a b c",
        "sample",
        "collective",
        "status 1",
        "",
    ] {
        let answer = send(&own_socket(), format!("marey 1 {word}\n").as_bytes()).unwrap();
        assert!(answer.starts_with("error\n"), "{word}: {answer}");
    }
    assert_eq!(api::active_sessions(), [session]);
    assert_eq!(fixture.files(), ["profile.hatchet"]); // of the flush
}

#[test]
fn a_child_of_a_fork_has_its_own_socket_and_the_parent_keeps_its_own() {
    let (_fixture, _session) = Fixture::with_session();
    ask_self(&Request::Status).unwrap();
    let child = fork(|| {
        let own = ask_self(&Request::Status).unwrap();
        i32::from(own.get("pid") != Some(&std::process::id().to_string()))
    });
    assert_eq!(child, 0);
    ask_self(&Request::Status).unwrap();
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_is_still_found() {
    let Some(fixture) = run_in_subprocess(&[], || {
        start("profile", Format::Hatchet);
        ask_self(&Request::Status).unwrap();
        // SAFETY: closes descriptors of this subprocess, which uses none above 2.
        #[expect(unsafe_code, reason = "std has no close_range(2)")]
        unsafe {
            libc::syscall(libc::SYS_close_range, 3, 1000, 0);
        }
        let files: Vec<_> = (0..20).map(|n| fs::File::create(format!("{n}")).unwrap()).collect();
        assert!(files.iter().any(|file| file.as_raw_fd() < 8));
        ask_self(&Request::Status).unwrap();
        for mut file in files {
            file.write_all(b"mine").unwrap();
        }
    }) else {
        return;
    };
    for n in 0..20 {
        assert_eq!(fs::read(fixture.path(&n.to_string())).unwrap(), b"mine");
    }
}

#[test]
fn no_socket_is_opened_in_a_folder_that_others_can_enter_or_where_it_is_turned_off() {
    let Some(subprocess) = Subprocess::of(|part| {
        remove_socket_of_killed_process();
        start("profile", Format::Hatchet);
        if part == "open folder" {
            ask_self(&Request::Status).unwrap(); // in the fallback
        }
        report_ready();
        wait_for_end_of_stdin();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let runtime_dir = fixture.path("runtime");
    fs::create_dir_all(runtime_dir.join("marey")).unwrap();
    fs::set_permissions(runtime_dir.join("marey"), fs::Permissions::from_mode(0o755)).unwrap();
    for (part, endpoint) in [("open folder", "1"), ("turned off", "0")] {
        let env =
            [("XDG_RUNTIME_DIR", runtime_dir.to_str().unwrap()), ("MAREY_ENDPOINT", endpoint)];
        let mut child = subprocess.spawn(part, &fixture, &env);
        let _out = wait_until_ready(&mut child);
        let name = socket_name(child.id());
        assert!(!runtime_dir.join("marey").join(&name).exists());
        assert_eq!(folder(None, uid()).join(&name).exists(), endpoint == "1");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(!folder(None, uid()).join(&name).exists(), "left at the end of the process");
    }
}
