//! Packing and opening packs.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use marey_model::table::stored::SPANS;
use marey_store::{Manifest, Run, StoreError, pack};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::sample;

/// Packs the sample.
fn pack_sample(run: &TempDir) -> PathBuf {
    let out = run.path().join("run.txt");
    let len_bytes = pack(run.path(), &out).unwrap();
    assert_eq!(fs::metadata(&out).unwrap().len(), len_bytes);
    out
}

#[test]
fn a_pack_with_any_name_has_the_same_rows() {
    let folder = sample::create_run();
    let out = pack_sample(&folder);
    let run = Run::open(&out).unwrap();
    assert!(run.is_pack());
    let open = Run::open(folder.path()).unwrap();
    assert!(!open.is_pack());
    assert_eq!(run.manifest(), open.manifest());
    sample::assert_has_sample_rows(&run);
    let (packed_part, plain) = (&run.parts(&SPANS)[1], &open.parts(&SPANS)[1]);
    let full_range = 0..plain.len_bytes();
    assert_eq!(
        packed_part.read_at(full_range.clone()).unwrap(),
        plain.read_at(full_range).unwrap()
    );
    packed_part.read_at(0..plain.len_bytes() + 1).unwrap_err();
}

#[test]
fn packing_is_deterministic() {
    let folder = sample::create_run();
    let first = pack_sample(&folder);
    let (second, third) = (folder.path().join("2"), folder.path().join("3"));
    pack(folder.path(), &second).unwrap();
    pack(&first, &third).unwrap();
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    assert_eq!(fs::read(&first).unwrap(), fs::read(&third).unwrap());
}

#[test]
fn unzip_libraries_read_packs() {
    let folder = sample::create_run();
    let mut zip = ZipArchive::new(File::open(pack_sample(&folder)).unwrap()).unwrap();
    let names: Vec<_> = zip.file_names().map(str::to_owned).collect();
    assert_eq!(names[0], "manifest.json");
    assert!(names[1..].is_sorted());
    let mut part = Vec::new();
    zip.by_name("tables/spans/part-0.parquet").unwrap().read_to_end(&mut part).unwrap();
    assert_eq!(part, fs::read(folder.path().join("tables/spans/part-0.parquet")).unwrap());
}

#[test]
fn packing_replaces_a_file_atomically_and_leaves_no_other() {
    let folder = sample::create_run();
    let target = tempfile::tempdir().unwrap();
    let out = target.path().join("out.zip");
    fs::write(&out, "before").unwrap();
    pack(folder.path(), &out).unwrap();
    Run::open(&out).unwrap();
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
    pack(folder.path(), &target.path().join("none/out.zip")).unwrap_err();
}

/// Writes a zip of these members with a library.
fn zip(path: &Path, members: &[(&str, &[u8])]) {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut zip = ZipWriter::new(File::create(path).unwrap());
    for (name, content) in members {
        zip.start_file(*name, options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
}

fn open_error(path: &Path) -> String {
    match Run::open(path).unwrap_err() {
        StoreError::Pack { reason, .. } => reason,
        error => panic!("{error}"),
    }
}

/// Returns the last offset of a zip record's signature.
fn last_position(bytes: &[u8], signature: &[u8]) -> usize {
    bytes.windows(signature.len()).rposition(|window| window == signature).unwrap()
}

const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";

#[test]
fn invalid_packs_are_rejected_with_a_reason() {
    type Corruption = fn(&mut Vec<u8>);
    let cases: [(Corruption, &str); 10] = [
        (
            |zip| {
                let name = last_position(zip, b"tables/spans/part-0.parquet");
                zip[name - 4..name].fill(0);
            },
            "no member starts at byte",
        ),
        (
            |zip| patch(zip, ENTRY, 10, &[8]),
            "`tables/variables/part-1.parquet` is compressed or encrypted",
        ),
        (
            |zip| patch(zip, ENTRY, 8, &[1]),
            "`tables/variables/part-1.parquet` is compressed or encrypted",
        ),
        (|zip| patch(zip, ENTRY, 42, &[0; 4]), "no member starts at byte"),
        (
            |zip| patch(zip, ENTRY, 42, &[0xfe; 4]),
            "`tables/variables/part-1.parquet` is not before the directory",
        ),
        (
            |zip| patch(zip, ENTRY, 46, b"../les"),
            "the path `../les/variables/part-1.parquet` leads out of the pack",
        ),
        (
            |zip| patch(zip, ENTRY, 46 + 22, b"0"),
            "`tables/variables/part-0.parquet` is listed twice",
        ),
        (|zip| patch(zip, END, 10, &[1, 0]), "bytes follow the directory's last entry"),
        (|zip| patch(zip, END, 10, &[200, 0]), "the directory ends within an entry"),
        (|zip| zip.push(0), "the file does not end with an end record"),
    ];
    let folder = sample::create_run();
    let out = pack_sample(&folder);
    let valid_pack = fs::read(&out).unwrap();
    for (corrupt, message) in cases {
        let mut broken = valid_pack.clone();
        corrupt(&mut broken);
        fs::write(&out, broken).unwrap();
        let reason = open_error(&out);
        assert!(reason.starts_with(message), "{reason}");
    }
}

fn patch(zip: &mut [u8], signature: &[u8], offset: usize, bytes: &[u8]) {
    let start = last_position(zip, signature) + offset;
    zip[start..start + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn a_pack_without_a_manifest_or_a_part_is_rejected() {
    let folder = sample::create_run();
    let out = folder.path().join("out");
    zip(&out, &[("readme", b"hello")]);
    assert_eq!(open_error(&out), "it has no `manifest.json`");
    zip(&out, &[("manifest.json", &fs::read(folder.path().join("manifest.json")).unwrap())]);
    let error = Run::open(&out).unwrap_err().to_string();
    assert!(error.ends_with("it is missing"), "{error}");
}

#[test]
fn a_pack_with_more_than_65535_members_opens() {
    let folder = tempfile::tempdir().unwrap();
    Manifest::new().publish(folder.path(), Vec::new()).unwrap();
    let manifest = fs::read(folder.path().join("manifest.json")).unwrap();
    let names: Vec<String> = (0..70_000).map(|number| number.to_string()).collect();
    let mut members: Vec<(&str, &[u8])> = vec![("manifest.json", &manifest)];
    members.extend(names.iter().map(|name| (name.as_str(), &b""[..])));
    let out = folder.path().join("out");
    zip(&out, &members);
    Run::open(&out).unwrap();
}

#[test]
fn a_pack_larger_than_four_gigabytes_opens() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number, rows| sample::write_part(folder.path(), &SPANS, number, rows);
    sample::publish(folder.path(), vec![part(0, 0..7), part(1, 7..14)]);
    let part = |number| fs::read(folder.path().join(part_name(number))).unwrap();

    // A member of five gigabytes between the two parts is a hole in the file.
    let hole_bytes = 5 << 30;
    let out = folder.path().join("out");
    let file = File::create(&out).unwrap();
    let mut zip = Zip { file: &file, len_bytes: 0, directory: Vec::new(), members: 0 };
    let json = fs::read(folder.path().join("manifest.json")).unwrap();
    zip.member("manifest.json", json.len() as u64, &json);
    zip.member(part_name(0), part(0).len() as u64, &part(0));
    zip.member("hole", hole_bytes, b"");
    zip.member(part_name(1), part(1).len() as u64, &part(1));
    zip.finish();

    // A library agrees that this is a zip.
    let library = ZipArchive::new(File::open(&out).unwrap()).unwrap();
    assert_eq!(library.len(), 4);
    let run = Run::open(&out).unwrap();
    assert_eq!(run.read(&SPANS).unwrap(), sample::create_rows(&SPANS, 0..14));
}

fn part_name(number: u32) -> &'static str {
    ["tables/spans/part-0.parquet", "tables/spans/part-1.parquet"][number as usize]
}

/// Writes a zip that may have holes and has zip64 fields for each member.
struct Zip<'a> {
    file: &'a File,
    len_bytes: u64,
    directory: Vec<u8>,
    members: u64,
}

impl Zip<'_> {
    fn member(&mut self, name: &str, len_bytes: u64, content: &[u8]) {
        let mut sizes = vec![1, 0, 24, 0];
        sizes.extend([len_bytes, len_bytes, self.len_bytes].map(u64::to_le_bytes).concat());
        let mut common = vec![45, 0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0];
        common.extend([0xff; 8]);
        common.extend([name.len() as u8, 0]);
        self.directory.extend([ENTRY, &[45, 0]].concat());
        self.directory.extend(&common);
        self.directory.extend([sizes.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.directory.extend([0xff; 4]);
        self.directory.extend([name.as_bytes(), &sizes].concat());
        let extra = [&[1, 0, 16, 0], &sizes[4..20]].concat();
        let header = [b"PK\x03\x04", &common[..], &[20, 0], name.as_bytes(), &extra].concat();
        self.file.write_all_at(&header, self.len_bytes).unwrap();
        self.len_bytes += header.len() as u64;
        self.file.write_all_at(content, self.len_bytes).unwrap();
        self.len_bytes += len_bytes;
        self.members += 1;
    }

    fn finish(self) {
        let end64_start = self.len_bytes + self.directory.len() as u64;
        let mut end = [&self.directory[..], b"PK\x06\x06"].concat();
        end.extend(44_u64.to_le_bytes());
        end.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let numbers = [self.members, self.members, self.directory.len() as u64, self.len_bytes];
        end.extend(numbers.map(u64::to_le_bytes).concat());
        end.extend(b"PK\x06\x07\0\0\0\0");
        end.extend(end64_start.to_le_bytes());
        end.extend([1, 0, 0, 0]);
        end.extend(b"PK\x05\x06\0\0\0\0");
        end.extend([0xff; 12]);
        end.extend([0, 0]);
        self.file.write_all_at(&end, self.len_bytes).unwrap();
    }
}
