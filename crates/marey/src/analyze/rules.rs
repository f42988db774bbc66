//! Lists the rules with their thresholds.

use std::io::{self, Write};

use marey_analysis::{Rule, rules};

use crate::output::{Paint, Style};

/// Writes all rules as text.
pub(super) fn write(out: &mut impl Write, paint: Paint) -> io::Result<()> {
    rules::ALL.iter().try_for_each(|rule| write_rule(rule, out, paint))
}

/// Writes all rules as Markdown, for the reference documentation.
pub(super) fn write_markdown(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# Rules\n")?;
    writeln!(
        out,
        "What `marey analyze` looks for. `marey analyze --rules -f md` writes this page."
    )?;
    writeln!(out, "Thresholds are set by `--threshold RULE.NAME=VALUE`, or in `run.findings()`.")?;
    for rule in rules::ALL {
        writeln!(out, "\n## `{}`: {}\n\n{}\n", rule.name, rule.title, rule.doc)?;
        writeln!(out, "Fix: {}\n", rule.hint)?;
        writeln!(out, "| threshold | default | |\n| --- | ---: | --- |")?;
        for threshold in rule.thresholds {
            let (default, unit) = (threshold.default, threshold.unit);
            let gap = if unit.is_empty() { "" } else { " " };
            writeln!(out, "| `{}` | {default}{gap}{unit} | {} |", threshold.name, threshold.doc)?;
        }
    }
    Ok(())
}

fn write_rule(rule: &Rule, out: &mut impl Write, paint: Paint) -> io::Result<()> {
    writeln!(out, "{}: {}", paint.with(Style::Bold, rule.name), rule.title)?;
    writeln!(out, "  {}", rule.doc)?;
    writeln!(out, "  Fix: {}", rule.hint)?;
    for threshold in rule.thresholds {
        let (name, default, unit) = (threshold.name, threshold.default, threshold.unit);
        let gap = if unit.is_empty() { "" } else { " " };
        let name = paint.with(Style::Cyan, format!("{}.{name}", rule.name));
        writeln!(out, "  {name} = {default}{gap}{unit}: {}", threshold.doc)?;
    }
    writeln!(out)
}
