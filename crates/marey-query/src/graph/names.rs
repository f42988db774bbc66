//! Styles that shorten the names of frames such as `/home/me/train.py:12@forward` for viewers.

use std::sync::Arc;

use super::Graph;

/// The style in which names of frames are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// The whole name.
    #[default]
    Full,
    /// The part after the last `/`: file, line and function.
    FileFunctionLine,
    /// The part after the last `:`: line and function.
    FunctionLine,
    /// File and function.
    FileFunction,
}

impl NameStyle {
    /// The name in this style.
    pub fn apply(self, name: &str) -> String {
        match self {
            Self::Full => name.to_owned(),
            Self::FileFunctionLine => after_last(name, '/').to_owned(),
            Self::FunctionLine => after_last(name, ':').to_owned(),
            Self::FileFunction => {
                let text_before_colon = |text| str::split(text, ':').next().unwrap_or_default();
                let file = text_before_colon(after_last(name, '/'));
                format!("{file}@{}", text_before_colon(after_last(name, '@')))
            }
        }
    }
}

impl Graph {
    /// Shows names in another style. The names in the profile do not change.
    pub fn style_names(&mut self, style: NameStyle) {
        if style != NameStyle::Full {
            for node in &mut self.nodes {
                node.name = style.apply(&node.name).into();
            }
        }
    }

    /// Sets the display name of each node.
    ///
    /// # Panics
    /// If the number of names differs from the number of nodes.
    pub fn set_names(&mut self, names: impl ExactSizeIterator<Item = Arc<str>>) {
        assert_eq!(names.len(), self.nodes.len(), "one name per node");
        for (node, name) in self.nodes.iter_mut().zip(names) {
            node.name = name;
        }
    }
}

fn after_last(text: &str, separator: char) -> &str {
    text.rsplit(separator).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_style_keeps_its_part_of_the_name() {
        let name = "/home/me/train.py:12@forward";
        for (style, expected) in [
            (NameStyle::Full, name),
            (NameStyle::FileFunctionLine, "train.py:12@forward"),
            (NameStyle::FunctionLine, "12@forward"),
            (NameStyle::FileFunction, "train.py@forward"),
        ] {
            assert_eq!(style.apply(name), expected);
        }
        assert_eq!(NameStyle::FileFunction.apply("kernel"), "kernel@kernel");
    }
}
