//! The folder with the script that the process runs, and the pipe by which the script answers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use crate::target;

/// Folders for temporary files, as the process sees them.
const FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Name of the script in its folder.
const SCRIPT: &str = "script.py";
/// Name of the pipe.
const ANSWERS: &str = "answers";
/// The maximum length of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 16;
/// The permissions of a file that only its owner can read and write.
const OWN_FILE: u32 = 0o600;

/// A folder that only the user of the process can open.
#[derive(Debug)]
pub(crate) struct Mailbox {
    folder: TempDir,
    /// Path of the folder as the process sees it.
    inner_folder: String,
    answer_pipe: File,
    received_bytes: Vec<u8>,
}

impl Mailbox {
    /// Creates the folder and the pipe in the file system of the process.
    pub(crate) fn create(pid: u32) -> io::Result<Self> {
        let mut failure = io::Error::from(ErrorKind::NotFound);
        for parent in FOLDERS {
            let outer = target::path_through_proc(pid, Path::new(parent));
            match tempfile::Builder::new().prefix("marey-attach-").tempdir_in(outer) {
                Ok(folder) => return Self::in_folder(folder, parent),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn in_folder(folder: TempDir, parent: &str) -> io::Result<Self> {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))?;
        let pipe_path = folder.path().join(ANSWERS);
        mkfifo(&pipe_path, Mode::from_bits_truncate(OWN_FILE))?;
        // Opened for writing too. A pipe that has lost its last writer is ready all the time.
        let mut options = OpenOptions::new();
        let answer_pipe =
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(pipe_path)?;
        let name = folder.path().file_name().unwrap_or_default().to_string_lossy();
        let inner_folder = format!("{parent}/{name}");
        Ok(Self { folder, inner_folder, answer_pipe, received_bytes: Vec::new() })
    }

    /// Returns the path of the pipe as the process sees it.
    pub(crate) fn pipe_path(&self) -> String {
        format!("{}/{ANSWERS}", self.inner_folder)
    }

    /// Stores the script, and gives all files to the user of the process. Returns the path of the
    /// script as the process sees it.
    pub(crate) fn store(&self, pid: u32, script: &str) -> io::Result<String> {
        let path = self.folder.path().join(SCRIPT);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(&path)?;
        file.write_all(script.as_bytes())?;
        let file_owner = file.metadata().map(|metadata| (metadata.uid(), metadata.gid()))?;
        if let Some((user, group)) = target::owner(pid).filter(|owner| *owner != file_owner) {
            // The folder comes last. Until then nobody else can replace a file in it.
            for path in [&path, &self.folder.path().join(ANSWERS), self.folder.path()] {
                lchown(path, Some(user), Some(group))?;
            }
        }
        Ok(format!("{}/{SCRIPT}", self.inner_folder))
    }

    /// Waits for a line, at most for `timeout`, and returns it without the line end.
    pub(crate) fn receive(&mut self, timeout: Duration) -> io::Result<Option<String>> {
        if let Some(line) = self.next_line() {
            return Ok(Some(line));
        }
        let mut descriptors = [PollFd::new(self.answer_pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)) {
            Err(error) if error != Errno::EINTR => return Err(error.into()),
            _ => {}
        }
        let mut chunk = [0; 4096];
        loop {
            match self.answer_pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => self.received_bytes.extend(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.received_bytes.len() > MAX_ANSWER_BYTES {
                return Err(io::Error::other("its answer is too long"));
            }
        }
        Ok(self.next_line())
    }

    fn next_line(&mut self) -> Option<String> {
        let end = self.received_bytes.iter().position(|byte| *byte == b'\n')?;
        let line = self.received_bytes.drain(..=end).collect::<Vec<_>>();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn only_the_user_of_the_process_can_open_the_folder_and_the_files_in_it() {
        let mailbox = Mailbox::create(std::process::id()).unwrap();
        mailbox.store(std::process::id(), "pass").unwrap();
        let folder = mailbox.folder.path();
        let own = fs::metadata("/proc/self").unwrap().uid();
        let expected = [
            (folder.to_owned(), 0o700),
            (folder.join(SCRIPT), 0o600),
            (folder.join(ANSWERS), 0o600),
        ];
        for (path, mode) in expected {
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert_eq!(
                (metadata.mode() & 0o777, metadata.uid()),
                (mode, own),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn after_a_writer_has_closed_the_pipe_a_wait_lasts_until_the_timeout() {
        const TIMEOUT: Duration = Duration::from_millis(50);
        let mut mailbox = Mailbox::create(std::process::id()).unwrap();
        fs::write(mailbox.folder.path().join(ANSWERS), "begun\n").unwrap();
        assert_eq!(mailbox.receive(TIMEOUT).unwrap().as_deref(), Some("begun"));
        let start = Instant::now();
        assert_eq!(mailbox.receive(TIMEOUT).unwrap(), None);
        assert!(start.elapsed() >= TIMEOUT);
        fs::write(mailbox.folder.path().join(ANSWERS), "ended\n").unwrap();
        assert_eq!(mailbox.receive(TIMEOUT).unwrap().as_deref(), Some("ended"));
    }
}
