//! `marey config`: shows and changes the settings of a process that records.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use marey_model::endpoint::{Facts, Request, SETTING_NOTE};
use marey_model::setting::{self, Declaration};
use marey_query::near::nearest;
use serde::Serialize;

use super::peer::Peer;
use crate::output::{Failure, Output, Stop, Style};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey config 4242                            The settings, with their values and ranges
  marey config 4242 checkpoint.interval        One value
  marey config 4242 checkpoint.interval=60     Change it
  marey config 4242 torch.operators=on         Record PyTorch's operators from the next step on
  marey config 4242 sample.slow_step=1.5       Sample Python's stacks in slow steps";

/// Arguments of `marey config`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct ConfigArgs {
    /// Process that records
    #[arg(value_name = "PID")]
    pid: u32,

    /// Settings to print or to change
    #[arg(value_name = "KEY[=VALUE]")]
    settings: Vec<String>,

    /// Print a JSON object of the settings
    #[arg(long)]
    json: bool,
}

/// A setting in the output of `--json`.
#[derive(Serialize)]
struct SettingEntry<'a> {
    value: &'a str,
    unit: &'a str,
    values: String,
    range: [f64; 2],
    default: String,
    description: &'a str,
}

/// Runs `marey config`. Changes no setting if one is unknown or has an invalid value.
pub(crate) fn config(args: &ConfigArgs, output: &mut Output) -> Result<(), Stop> {
    let requested: Vec<_> =
        args.settings.iter().map(|text| requested(text)).collect::<Result<_, _>>()?;
    let peer = Peer::find(args.pid)?;
    for (declared, value) in &requested {
        if let Some(value) = value {
            let value = value.trim().to_owned();
            let facts = peer.ask(&Request::Set { key: declared.key.to_owned(), value })?;
            if let Some(reason) = facts.get(SETTING_NOTE) {
                output.warning(format_args!("`{}`: {}", declared.key, printable(reason)))?;
            }
        }
    }
    let facts = peer.ask(&Request::Settings)?;
    let shown: Vec<_> = match requested.as_slice() {
        [] => setting::ALL.iter().collect(),
        _ => requested.iter().map(|(declared, _)| *declared).collect(),
    };
    if args.json {
        return print_json(&shown, &facts, output);
    }
    for declared in shown {
        let value = value_of(declared, &facts)?;
        match args.settings.as_slice() {
            [] => print_setting(declared, value, output)?,
            _ => writeln!(output.data(), "{} = {value}{}", declared.key, unit(declared))?,
        }
    }
    Ok(())
}

/// Returns the setting that an argument names, and the value if it sets one.
fn requested(text: &str) -> Result<(&'static Declaration, Option<&str>), Failure> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value)),
        None => (text.trim(), None),
    };
    let Some(declared) = setting::find(key) else {
        let keys = setting::ALL
            .iter()
            .flat_map(|declared| [&declared.key].into_iter().chain(declared.aliases));
        let similar = nearest(key, &keys.map(|&key| key.to_owned()).collect::<Vec<_>>());
        let hint = match similar.as_slice() {
            [] => "`marey config PID` lists the settings".to_owned(),
            similar => format!("did you mean `{}`?", similar.join("`, `")),
        };
        return Err(Failure { message: format!("there is no setting `{key}`"), hint: Some(hint) });
    };
    if let Some(value) = value {
        let refused = |invalid: setting::InvalidValue| Failure { message: invalid.0, hint: None };
        declared.parse(value).map_err(refused)?;
    }
    Ok((declared, value))
}

fn value_of<'a>(declared: &Declaration, facts: &'a Facts) -> Result<&'a str, Failure> {
    facts.get(declared.key).ok_or_else(|| Failure {
        message: format!("the process has no setting `{}`", declared.key),
        hint: Some("it records with another version of marey".to_owned()),
    })
}

fn unit(declared: &Declaration) -> String {
    if declared.unit.is_empty() { String::new() } else { format!(" {}", declared.unit) }
}

fn print_setting(declared: &Declaration, value: &str, output: &mut Output) -> io::Result<()> {
    let assignment = format!("{} = {value}{}", declared.key, unit(declared));
    let assignment = output.paint.with(Style::Bold, assignment).to_string();
    writeln!(output.data(), "{assignment}")?;
    let default = declared.format(declared.default);
    let values = declared.describe_values();
    writeln!(output.data(), "    {}\n    {values}; default {default}", declared.doc)
}

fn print_json(shown: &[&Declaration], facts: &Facts, output: &mut Output) -> Result<(), Stop> {
    let mut settings = BTreeMap::new();
    for declared in shown {
        let entry = SettingEntry {
            value: value_of(declared, facts)?,
            unit: declared.unit,
            values: declared.describe_values(),
            range: declared.range.into(),
            default: declared.format(declared.default),
            description: declared.doc,
        };
        settings.insert(declared.key, entry);
    }
    serde_json::to_writer_pretty(output.data(), &settings).map_err(io::Error::from)?;
    Ok(writeln!(output.data())?)
}
