//! Profiles as texts.

use super::message::{Label, Line, Profile};

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
