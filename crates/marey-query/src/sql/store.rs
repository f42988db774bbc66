//! The object store from which `DataFusion` reads. It has the parts of one run and no other files,
//! so a query cannot read anything else.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use marey_model::table::stored;
use marey_store::{Part, Run};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult,
};

/// The URL of the parts in `DataFusion`.
const ROOT: &str = "run://parts";

/// The parts of a run, which are read in place from a folder or a pack.
pub(super) struct RunStore {
    run: Arc<Run>,
    /// The index of each part's table, and the part's position in the table.
    parts: HashMap<Path, (usize, usize)>,
}

impl RunStore {
    pub(super) fn new(run: Arc<Run>) -> Self {
        let mut parts = HashMap::new();
        for (table_index, stored_table) in stored::ALL.iter().enumerate() {
            for (part_index, part) in run.parts(stored_table).iter().enumerate() {
                parts.insert(Path::from(part.name()), (table_index, part_index));
            }
        }
        Self { run, parts }
    }

    pub(super) fn url() -> Result<ObjectStoreUrl> {
        ObjectStoreUrl::parse(ROOT)
    }

    /// Returns the metadata of a part, which is known without opening it.
    pub(super) fn meta(part: &Part) -> ObjectMeta {
        ObjectMeta {
            location: Path::from(part.name()),
            last_modified: std::time::UNIX_EPOCH.into(), // a part never changes
            size: part.len_bytes(),
            e_tag: None,
            version: None,
        }
    }

    fn part(&self, location: &Path) -> object_store::Result<&Part> {
        match self.parts.get(location) {
            Some(&(table_index, part_index)) => {
                Ok(&self.run.parts(stored::ALL[table_index])[part_index])
            }
            None => Err(Error::NotFound {
                path: location.to_string(),
                source: "only the parts of the run can be read".into(),
            }),
        }
    }

    fn read(&self, location: &Path, range: Range<u64>) -> object_store::Result<Bytes> {
        let to_store_error = |error| Error::Generic { store: "run", source: Box::new(error) };
        self.part(location)?.read_at(range).map_err(to_store_error)
    }
}

#[async_trait]
impl ObjectStore for RunStore {
    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let meta = Self::meta(self.part(location)?);
        let range = match &options.range {
            Some(range) => range
                .as_range(meta.size)
                .map_err(|error| Error::Generic { store: "run", source: Box::new(error) })?,
            None => 0..meta.size,
        };
        let read_range = if options.head { 0..0 } else { range.clone() };
        let bytes = self.read(location, read_range)?;
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::new() })
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> object_store::Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read(location, range.clone())).collect()
    }

    // Scans name the parts of a table, so the store is never listed.
    fn list(&self, _: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        stream::once(async { unsupported("list") }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> object_store::Result<ListResult> {
        unsupported("list")
    }

    async fn put_opts(
        &self,
        _: &Path,
        _: PutPayload,
        _: PutOptions,
    ) -> object_store::Result<PutResult> {
        unsupported("write")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        unsupported("write")
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        stream::once(async { unsupported("delete") }).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        unsupported("copy")
    }
}

fn unsupported<T>(operation: &str) -> object_store::Result<T> {
    Err(Error::NotImplemented { operation: operation.into(), implementer: "RunStore".into() })
}

impl fmt::Debug for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStore").field("run", &self.run.path()).finish_non_exhaustive()
    }
}

impl fmt::Display for RunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunStore({})", self.run.path().display())
    }
}
