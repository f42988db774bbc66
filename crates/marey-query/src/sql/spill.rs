//! The files to which queries spill: temporary files without a name, in the system's temporary
//! folder. The system frees them even if the process is killed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use futures::stream::{self, StreamExt};

/// Number of bytes that are read back at a time.
const READ_BYTES: usize = 128 << 10;

/// A factory of temporary files. `DataFusion` calls it when a query first exceeds its memory.
pub(super) struct SpillFiles;

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = marey_store::temp_file().map_err(|error| temp_file_error(&error))?;
        Ok(Arc::new(UnnamedSpillFile(Arc::new(file))))
    }
}

fn temp_file_error(error: &io::Error) -> DataFusionError {
    let folder = marey_store::temp_dir();
    DataFusionError::Execution(format!(
        "the query exceeds its memory limit, and no temporary file can be created in `{}`: {error}",
        folder.display()
    ))
}

struct UnnamedSpillFile(Arc<File>);

impl SpillFile for UnnamedSpillFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.metadata().ok()?.len())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let chunks = stream::try_unfold((Arc::clone(&self.0), 0), |(file, offset)| async move {
            let mut bytes = vec![0; READ_BYTES];
            let len = file.read_at(&mut bytes, offset)?;
            bytes.truncate(len);
            Ok((len > 0).then(|| (Bytes::from(bytes), (file, offset + len as u64))))
        });
        Ok(chunks.boxed())
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(UnnamedSpillWriter(Arc::clone(&self.0))))
    }
}

struct UnnamedSpillWriter(Arc<File>);

impl Write for UnnamedSpillWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for UnnamedSpillWriter {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
