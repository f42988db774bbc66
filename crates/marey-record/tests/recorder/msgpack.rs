//! A minimal MessagePack reader for profiles.

use serde_json::{Map, Value};

/// Decodes one value, which must be the entire input.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    let mut input = bytes;
    let value = read_value(&mut input);
    assert!(input.is_empty(), "{} bytes after the end", input.len());
    value
}

fn read_bytes<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (bytes, remaining) = input.split_at(len);
    *input = remaining;
    bytes
}

fn read_array<const N: usize>(input: &mut &[u8]) -> [u8; N] {
    read_bytes(input, N).try_into().unwrap()
}

fn read_len(input: &mut &[u8]) -> usize {
    u32::from_be_bytes(read_array(input)) as usize
}

fn read_value(input: &mut &[u8]) -> Value {
    let [tag] = read_array(input);
    match tag {
        0x00..=0x7f => tag.into(),
        0x80..=0x8f => read_map(input, usize::from(tag & 0x0f)),
        0x90..=0x9f => read_list(input, usize::from(tag & 0x0f)),
        0xa0..=0xbf => read_text(input, usize::from(tag & 0x1f)).into(),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => (tag == 0xc3).into(),
        0xcb => f64::from_be_bytes(read_array(input)).into(),
        0xcf => u64::from_be_bytes(read_array(input)).into(),
        0xd3 => i64::from_be_bytes(read_array(input)).into(),
        0xdb => {
            let len = read_len(input);
            read_text(input, len).into()
        }
        0xdd => {
            let len = read_len(input);
            read_list(input, len)
        }
        0xdf => {
            let len = read_len(input);
            read_map(input, len)
        }
        _ => panic!("unexpected tag {tag:#x}"),
    }
}

fn read_text(input: &mut &[u8], len: usize) -> String {
    String::from_utf8(read_bytes(input, len).to_vec()).unwrap()
}

fn read_list(input: &mut &[u8], len: usize) -> Value {
    (0..len).map(|_| read_value(input)).collect()
}

fn read_map(input: &mut &[u8], len: usize) -> Value {
    let mut fields = Map::new();
    for _ in 0..len {
        let Value::String(key) = read_value(input) else { panic!("a key is not a string") };
        let value = read_value(input);
        assert!(fields.insert(key.clone(), value).is_none(), "{key} occurs twice");
    }
    fields.into()
}
