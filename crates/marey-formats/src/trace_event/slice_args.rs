//! Reads the arguments of slices. Some have columns, and the rest are stored as a text.
//!
//! Events of one [shape](super::shape) have the same keys. If the values are integers too, all
//! events of the shape have the same text, which is built and looked up once.

use marey_model::args::{NewArgs, canonical_integer};
use marey_model::context::NodeKind;
use marey_store::row::Args;

use super::event::Event;
use crate::shared::import::{Import, ReaderError};

/// The way in which the arguments of slices are read, by shape.
#[derive(Debug, Default)]
pub(super) struct SliceArgs {
    methods_by_shape: Vec<ReadMethod>,
}

/// The way in which the arguments of a shape are read.
#[derive(Debug, Default)]
enum ReadMethod {
    /// No slice of the shape has been read.
    #[default]
    Unknown,
    /// By keys, as for an event without a shape.
    ByKeys,
    /// As integers, as long as all of them are integers.
    IntegerArgs(IntegerArgs),
}

/// Arguments that are integers.
#[derive(Debug)]
struct IntegerArgs {
    columns: Box<[ArgColumn]>,
    /// The text of the arguments without a column, if there are any.
    text_id: Option<u32>,
}

/// The column of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgColumn {
    Correlation,
    External,
    /// Whether the slice has ended, which is a Boolean and not a number.
    Finished,
    None,
}

impl ArgColumn {
    fn from_key(key: &str, kind: NodeKind) -> Self {
        match key {
            "finished" => Self::Finished,
            "correlation" if kind == NodeKind::Runtime => Self::Correlation,
            "External id" | "external id" => Self::External,
            _ => Self::None,
        }
    }
}

/// The parsed arguments of a slice.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ParsedArgs {
    pub(super) correlation_id: Option<u64>,
    pub(super) external_id: Option<u64>,
    pub(super) is_unfinished: bool,
    pub(super) args: Args,
}

impl SliceArgs {
    /// Reads the arguments of a slice. Adds those without a column to `args`.
    pub(super) fn read(
        &mut self,
        event: &Event,
        kind: NodeKind,
        args: &mut NewArgs,
        import: &mut Import,
    ) -> Result<ParsedArgs, ReaderError> {
        let Some(shape) = event.shape().filter(|_| args.is_empty()) else {
            return read_by_keys(event, kind, args, import);
        };
        let index = shape as usize;
        if self.methods_by_shape.len() <= index {
            self.methods_by_shape.resize_with(index + 1, ReadMethod::default);
        }
        let method = &mut self.methods_by_shape[index];
        if let ReadMethod::IntegerArgs(integer_args) = method
            && let Some(parsed) = integer_args.read(event)
        {
            return Ok(parsed);
        }
        let parsed = read_by_keys(event, kind, args, import)?;
        if let ReadMethod::Unknown = method {
            let integer_args = IntegerArgs::from_parsed(event, kind, &parsed);
            *method = integer_args.map_or(ReadMethod::ByKeys, ReadMethod::IntegerArgs);
        }
        Ok(parsed)
    }
}

impl IntegerArgs {
    /// Returns the fast path for arguments like those of an event, if it applies.
    fn from_parsed(event: &Event, kind: NodeKind, parsed: &ParsedArgs) -> Option<Self> {
        let columns: Box<[ArgColumn]> =
            event.args().map(|(key, _)| ArgColumn::from_key(&key, kind)).collect();
        let count = |column| columns.iter().filter(|other| **other == column).count();
        let is_complete = count(ArgColumn::Finished) == 0
            && count(ArgColumn::Correlation) == usize::from(parsed.correlation_id.is_some())
            && count(ArgColumn::External) == usize::from(parsed.external_id.is_some())
            && count(ArgColumn::None) == parsed.args.numbers.len();
        is_complete.then_some(Self { columns, text_id: parsed.args.text_id })
    }

    /// Reads the arguments. Returns `None` if one is not an integer.
    fn read(&self, event: &Event) -> Option<ParsedArgs> {
        let mut parsed = ParsedArgs::default();
        parsed.args.text_id = self.text_id;
        for (column, value) in self.columns.iter().zip(event.arg_values()) {
            match column {
                ArgColumn::Correlation => parsed.correlation_id = Some(value.parse().ok()?),
                ArgColumn::External => parsed.external_id = Some(value.parse().ok()?),
                ArgColumn::Finished | ArgColumn::None => {
                    parsed.args.numbers.push(canonical_integer(value)?);
                }
            }
        }
        Some(parsed)
    }
}

fn read_by_keys(
    event: &Event,
    kind: NodeKind,
    args: &mut NewArgs,
    import: &mut Import,
) -> Result<ParsedArgs, ReaderError> {
    let mut parsed = ParsedArgs::default();
    for (key, value) in event.args() {
        let column = match ArgColumn::from_key(&key, kind) {
            ArgColumn::Correlation => &mut parsed.correlation_id,
            ArgColumn::External => &mut parsed.external_id,
            ArgColumn::Finished if value == "\"false\"" => {
                parsed.is_unfinished = true;
                continue;
            }
            ArgColumn::Finished | ArgColumn::None => {
                event.add_arg(&key, value, args);
                continue;
            }
        };
        match value.parse() {
            Ok(number) if column.is_none() => *column = Some(number),
            _ => event.add_arg(&key, value, args),
        }
    }
    parsed.args = import.run.args(args)?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_event::event::{EventRanges, Members};
    use crate::trace_event::shape::Shapes;
    use marey_store::Assembler;
    use proptest::prelude::*;

    /// Reads each event by its shape and by keys. Returns both results, and the number of shapes
    /// that are read as integers.
    fn read(events: &[(String, bool)], kind: NodeKind) -> (Vec<[ParsedArgs; 2]>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut import = Import::new(Assembler::temporary(folder.path()), "file");
        let (mut shapes, mut slice_args) = (Shapes::default(), SliceArgs::default());
        let mut parsed = Vec::new();
        for (text, has_extra) in events {
            let (mut ranges, mut members) = (EventRanges::default(), Members::default());
            ranges.parse(text.as_bytes(), &mut members, &mut shapes).unwrap();
            let event = ranges.event(text, &members, 0);
            let mut more = NewArgs::default();
            if *has_extra {
                more.text("dur", "?");
            }
            let mut args = more.clone();
            let by_shape = slice_args.read(&event, kind, &mut args, &mut import).unwrap();
            let by_keys = read_by_keys(&event, kind, &mut more, &mut import).unwrap();
            parsed.push([by_shape, by_keys]);
        }
        let are_numbers = |method: &&ReadMethod| matches!(method, ReadMethod::IntegerArgs(_));
        (parsed, slice_args.methods_by_shape.iter().filter(are_numbers).count())
    }

    fn event(correlation: &str, external: &str, index: &str) -> String {
        format!(
            r#"{{"ph":"X","args":{{"correlation":{correlation},"External id":{external},"Ev Idx":{index}}}}}"#
        )
    }

    /// Returns values, most of which are integers, so that consecutive events match.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => "[1-9][0-9]{0,2}",
            1 => r#"0|-[1-9]|1\.5|1e5|null|99999999999999999999|"x"|"false"|\[1\]"#,
        ]
    }

    #[test]
    fn arguments_of_a_known_shape_are_read_as_numbers() {
        let events: Vec<_> = (1..4).map(|n| (event("7", &n.to_string(), "-1"), false)).collect();
        let (parsed, numbers) = read(&events, NodeKind::Runtime);
        assert_eq!(numbers, 1);
        let [last, _] = parsed.last().unwrap();
        assert_eq!((last.correlation_id, last.external_id), (Some(7), Some(3)));
        assert_eq!(*last.args.numbers, [-1]);
        assert_eq!(last.args.text_id, parsed[0][1].args.text_id);
    }

    proptest! {
        #[test]
        fn shapes_do_not_change_arguments(
            values in prop::collection::vec((value(), value(), value(), prop::bool::weighted(0.1)), 2..24),
            is_runtime in any::<bool>(),
            key in r"correlation|finished|External id|x",
        ) {
            let events: Vec<_> = values
                .iter()
                .map(|(a, b, c, has_extra)| (event(a, b, c).replace("Ev Idx", &key), *has_extra))
                .collect();
            let kind = if is_runtime { NodeKind::Runtime } else { NodeKind::Operator };
            for [by_shape, by_keys] in read(&events, kind).0 {
                prop_assert_eq!(by_shape, by_keys);
            }
        }
    }
}
