//! Native stacks in arguments: the process records places of machine code, which get their names here.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use super::Sources;

/// Key of the places in the arguments of a scope, its last member: a list of texts, outermost first.
const PLACES: &str = "\"Native stack\": ";
/// Key of the names, as profilers write them: one text, outermost first, separated by `;`.
const NAMES: &str = "\"Call stack\": ";

/// A place of machine code, recorded as `PATH+0xADDRESS BUILD_ID`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodePlace {
    /// Path of the file, as the process has it.
    pub path: PathBuf,
    /// Address in the file, before it is loaded.
    pub address: u64,
    /// The first digits of its build id, hexadecimal; empty if it has none.
    pub build_id: String,
}

impl CodePlace {
    /// Parses a recorded place; `None` for one outside of all files.
    fn parse(text: &str) -> Option<Self> {
        let (path, address) = text.rsplit_once("+0x")?;
        let (address, build_id) = address.split_once(' ').unwrap_or((address, ""));
        Some(Self {
            path: path.into(),
            address: u64::from_str_radix(address, 16).ok()?,
            build_id: build_id.into(),
        })
    }
}

/// Names the places in the arguments of a spool's scopes.
pub(super) struct NativeStacks<'a> {
    sources: &'a dyn Sources,
    /// The names of each recorded place, joined.
    known: HashMap<String, String>,
}

impl<'a> NativeStacks<'a> {
    pub(super) fn new(sources: &'a dyn Sources) -> Self {
        Self { sources, known: HashMap::new() }
    }

    /// Returns the arguments with names in place of places. A place without a name is its file and address.
    pub(super) fn named(&mut self, args: String) -> String {
        let Some((before, places)) = args
            .rsplit_once(PLACES)
            .filter(|(before, _)| before.ends_with('{') || before.ends_with(", "))
        else {
            return args;
        };
        let places = places.strip_suffix('}').and_then(|list| serde_json::from_str(list).ok());
        let Some(places): Option<Vec<String>> = places else { return args };
        let names: Vec<_> = places.iter().map(|place| self.name(place)).collect();
        format!("{before}{NAMES}{}}}", serde_json::Value::String(names.join(";")))
    }

    fn name(&mut self, recorded: &str) -> String {
        if let Some(known) = self.known.get(recorded) {
            return known.clone();
        }
        let name = CodePlace::parse(recorded).map_or_else(
            || recorded.to_owned(),
            |place| {
                let functions = self.sources.functions_at(&place);
                if functions.is_empty() {
                    format!("{}+{:#x}", place.path.display(), place.address)
                } else {
                    functions.join(";")
                }
            },
        );
        self.known.insert(recorded.to_owned(), name.clone());
        name
    }
}

impl fmt::Debug for NativeStacks<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NativeStacks").field("known", &self.known).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Run;

    struct Named;

    impl Sources for Named {
        fn read_trace(&self, trace: &Path) -> Result<Run, String> {
            Err(trace.display().to_string())
        }

        fn functions_at(&self, place: &CodePlace) -> Vec<String> {
            match (place.path.to_str(), place.address, &*place.build_id) {
                (Some("/a b+0x1/app"), 0x1f, "00ab") => vec!["main".into(), "inlined \"x\"".into()],
                _ => Vec::new(),
            }
        }
    }

    #[test]
    fn places_get_the_names_of_their_functions() {
        let mut stacks = NativeStacks::new(&Named);
        let args =
            r#"{"k": 1, "Native stack": ["/a b+0x1/app+0x1f 00ab", "/lib.so+0x2", "0x7f00"]}"#;
        let named = r#"{"k": 1, "Call stack": "main;inlined \"x\";/lib.so+0x2;0x7f00"}"#;
        assert_eq!(stacks.named(args.into()), named);
        assert_eq!(stacks.named(args.into()), named);
        let alone = r#"{"Native stack": ["/a b+0x1/app+0x1f 00ac"]}"#;
        assert_eq!(stacks.named(alone.into()), r#"{"Call stack": "/a b+0x1/app+0x1f"}"#);
    }

    #[test]
    fn sources_that_only_read_traces_name_no_places() {
        let only_traces =
            |trace: &Path| -> Result<Run, String> { Err(trace.display().to_string()) };
        let mut stacks = NativeStacks::new(&only_traces);
        let args = r#"{"Native stack": ["/lib.so+0x2"]}"#;
        assert_eq!(stacks.named(args.into()), r#"{"Call stack": "/lib.so+0x2"}"#);
    }

    #[test]
    fn other_arguments_stay_as_they_are() {
        let mut stacks = NativeStacks::new(&Named);
        for args in [
            "{}",
            r#"{"note": "\"Native stack\": [\"/lib.so+0x2\"]}"}"#,
            r#"{"Native stack": ["/lib.so+0x2"], "more": 1}"#,
            r#"{"Native stack": [1]}"#,
            r#"{"Native stack": "#,
        ] {
            assert_eq!(stacks.named(args.into()), args);
        }
    }
}
