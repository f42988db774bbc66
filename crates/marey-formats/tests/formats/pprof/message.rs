//! The messages, declared independently of the reader and the writer.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
    #[prost(int64, tag = "3")]
    pub(super) num: i64,
    #[prost(int64, tag = "4")]
    pub(super) num_unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(super) number: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "4")]
    pub(super) filename: i64,
}

impl Profile {
    /// `name/unit` of each type of value.
    pub(super) fn types(&self) -> Vec<String> {
        let types = self.sample_type.iter();
        types.map(|ty| format!("{}/{}", self.text(ty.kind), self.text(ty.unit))).collect()
    }

    /// The samples as `inner < outer (file:line) [values] labels`, sorted.
    pub(super) fn stacks(&self) -> Vec<String> {
        let mut stacks: Vec<String> = self
            .sample
            .iter()
            .map(|sample| {
                let frames: Vec<String> =
                    sample.location_id.iter().flat_map(|&id| self.frames(id)).collect();
                let labels: String = sample.label.iter().map(|label| self.label(label)).collect();
                format!("{} {:?}{labels}", frames.join(" < "), sample.value)
            })
            .collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.matches(" < ").count()));
        stacks
    }

    pub(super) fn text(&self, position: i64) -> &str {
        &self.string_table[position as usize]
    }

    fn label(&self, label: &Label) -> String {
        let unit = self.text(label.num_unit);
        match label.text {
            0 => format!(" {}={}{unit}", self.text(label.key), label.num),
            text => format!(" {}={}", self.text(label.key), self.text(text)),
        }
    }

    fn frames(&self, id: u64) -> Vec<String> {
        let mut locations = self.location.iter();
        let location = locations.find(|location| location.id == id).expect("it is there");
        let frame = |line: &Line| {
            let mut functions = self.function.iter();
            let function = functions.find(|function| function.id == line.function_id).unwrap();
            match function.filename {
                0 => self.text(function.name).to_owned(),
                file => {
                    let (name, file) = (self.text(function.name), self.text(file));
                    format!("{name} ({file}:{})", line.number)
                }
            }
        };
        location.line.iter().map(frame).collect()
    }
}
