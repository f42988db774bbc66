//! The writer of a spool, which never writes after a torn frame.

use std::io;

use super::{SpoolFrame, encode, header};

/// Writes frames to a file, each in one call of `write`.
///
/// After an error all further writes fail, because a reader would never reach frames after a torn
/// one.
#[derive(Debug)]
pub struct SpoolWriter<W> {
    out: W,
    buffer: Vec<u8>,
    has_failed: bool,
}

impl<W: io::Write> SpoolWriter<W> {
    /// Creates a writer and writes the header. `out` should be unbuffered.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&header())?;
        Ok(Self { out, buffer: Vec::new(), has_failed: false })
    }

    /// Appends a frame. A frame that is too long fails with `InvalidInput` and leaves the writer
    /// usable.
    pub fn write_frame(&mut self, frame: &SpoolFrame) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier frame of the spool was not written"));
        }
        self.buffer.clear();
        encode(frame, &mut self.buffer)?;
        let result = self.out.write_all(&self.buffer);
        self.has_failed = result.is_err();
        result
    }

    /// Returns the underlying writer.
    pub const fn get_ref(&self) -> &W {
        &self.out
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_FRAME_BYTES;
    use super::*;

    /// A writer that accepts this many bytes, then none.
    struct LimitedWriter(usize);

    impl io::Write for LimitedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let accepted = bytes.len().min(self.0);
            self.0 -= accepted;
            Ok(accepted)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_written_after_a_torn_frame() {
        let mut writer = SpoolWriter::new(LimitedWriter(15)).unwrap();
        assert_eq!(
            writer.write_frame(&SpoolFrame::End).unwrap_err().kind(),
            io::ErrorKind::WriteZero
        );
        writer.out.0 = 100;
        assert_eq!(writer.write_frame(&SpoolFrame::End).unwrap_err().kind(), io::ErrorKind::Other);
        assert_eq!(writer.get_ref().0, 100);
    }

    #[test]
    fn a_frame_that_is_too_long_is_rejected_and_writing_continues() {
        let mut out = vec![7];
        let text_bytes = MAX_FRAME_BYTES - 7; // kind 1, first 1, count 1, length 4
        let strings =
            |len: usize| SpoolFrame::Strings { first_id: 0, texts: vec!["x".repeat(len)] };
        assert!(encode(&strings(text_bytes + 1), &mut out).is_err());
        assert_eq!(out, [7]);

        let mut writer = SpoolWriter::new(Vec::new()).unwrap();
        let error = writer.write_frame(&strings(text_bytes + 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "a frame of 16777217 bytes is longer than 16777216");
        writer.write_frame(&strings(text_bytes)).unwrap();
    }
}
