//! `marey config`: shows and changes the settings of a process that records.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clap::Args;
use marey_model::endpoint::{Facts, Request, SETTING_NOTE};
use marey_model::setting::{self, Declaration};
use marey_query::near::nearest;
use serde::Serialize;

use super::peer::Peer;
use crate::output::{CommandError, Failure, Output, Style, write_json};
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
pub(crate) fn config(args: &ConfigArgs, output: &mut Output) -> Result<(), CommandError> {
    let requested: Vec<_> =
        args.settings.iter().map(|text| requested(text)).collect::<Result<_, _>>()?;
    let peer = Peer::find(args.pid)?;
    for (declaration, value) in &requested {
        if let Some(value) = value {
            let value = value.trim().to_owned();
            let facts = peer.ask(&Request::Set { key: declaration.key.to_owned(), value })?;
            if let Some(reason) = facts.get(SETTING_NOTE) {
                output.warning(format_args!("`{}`: {}", declaration.key, printable(reason)))?;
            }
        }
    }
    let facts = peer.ask(&Request::Settings)?;
    let shown_settings: Vec<_> = match requested.as_slice() {
        [] => setting::ALL.iter().collect(),
        _ => requested.iter().map(|(declaration, _)| *declaration).collect(),
    };
    if args.json {
        return print_json(&shown_settings, &facts, output);
    }
    for declaration in shown_settings {
        let value = value_of(declaration, &facts)?;
        match args.settings.as_slice() {
            [] => print_setting(declaration, value, output)?,
            _ => writeln!(
                output.data(),
                "{} = {value}{}",
                declaration.key,
                unit_suffix(declaration)
            )?,
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
    let Some(declaration) = setting::find(key) else {
        let keys = setting::ALL
            .iter()
            .flat_map(|declaration| [&declaration.key].into_iter().chain(declaration.aliases));
        let similar = nearest(key, &keys.map(|&key| key.to_owned()).collect::<Vec<_>>());
        let hint = match similar.as_slice() {
            [] => "`marey config PID` lists the settings".to_owned(),
            similar => format!("did you mean `{}`?", similar.join("`, `")),
        };
        return Err(Failure { message: format!("there is no setting `{key}`"), hint: Some(hint) });
    };
    if let Some(value) = value {
        let refused = |invalid: setting::InvalidValue| Failure::new(invalid.0);
        declaration.parse(value).map_err(refused)?;
    }
    Ok((declaration, value))
}

fn value_of<'a>(declaration: &Declaration, facts: &'a Facts) -> Result<&'a str, Failure> {
    facts.get(declaration.key).ok_or_else(|| Failure {
        message: format!("the process has no setting `{}`", declaration.key),
        hint: Some("it records with another version of marey".to_owned()),
    })
}

fn unit_suffix(declaration: &Declaration) -> String {
    if declaration.unit.is_empty() { String::new() } else { format!(" {}", declaration.unit) }
}

fn print_setting(declaration: &Declaration, value: &str, output: &mut Output) -> io::Result<()> {
    let assignment = format!("{} = {value}{}", declaration.key, unit_suffix(declaration));
    let assignment = output.paint.with(Style::Bold, assignment).to_string();
    writeln!(output.data(), "{assignment}")?;
    let default = declaration.format(declaration.default);
    let values = declaration.describe_values();
    writeln!(output.data(), "    {}\n    {values}; default {default}", declaration.doc)
}

fn print_json(
    shown_settings: &[&Declaration],
    facts: &Facts,
    output: &mut Output,
) -> Result<(), CommandError> {
    let mut settings = BTreeMap::new();
    for declaration in shown_settings {
        let entry = SettingEntry {
            value: value_of(declaration, facts)?,
            unit: declaration.unit,
            values: declaration.describe_values(),
            range: declaration.range.into(),
            default: declaration.format(declaration.default),
            description: declaration.doc,
        };
        settings.insert(declaration.key, entry);
    }
    Ok(write_json(output.data(), &settings)?)
}
