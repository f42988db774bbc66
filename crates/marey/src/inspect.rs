//! `marey inspect`: reads a value of a running program from outside.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Args;
use marey_attach::inspect::{
    Expression, ExpressionError, InspectError, Inspected, Inspector, Scope, Value, ValueLimits,
};
use marey_query::near::nearest;

use crate::output::{CommandError, Failure, Output, Style, write_json};
use crate::text::printable;

const EXAMPLES: &str = "\
Examples:
  marey inspect 4242 step                           A variable of the main module
  marey inspect 4242 'model.layers[3].in_features'  An attribute of an item
  marey inspect 4242 'config[\"lr\"]'                 A value of a dictionary
  marey inspect 4242 pkg.settings.SEED              A variable of another module
  marey inspect 4242 loss --function train_step     A local variable of a function that runs
  marey inspect 4242 batch --thread 4250 --frame 1  One of the caller of a thread's innermost function
  marey inspect 4242 model -l                       The attributes that an object stores
  marey inspect 4242 config --json | jq .entries

The value is read from the memory of the process, which need not know marey and is neither stopped nor
changed. EXPR is a name with attributes and indexes: what is stored can be read. Calls, operators and
properties would run code of the program, and are refused.";

const READABLE: &str = "names, attributes and indexes can be read, such as model.layers[3].weight, \
                        config[\"lr\"] and args[-1]";

/// Arguments of `marey inspect`.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct InspectArgs {
    /// Process to read
    #[arg(value_name = "PID")]
    pid: u32,

    /// Value to read, such as model.layers[3].weight
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    expression: String,

    /// Look names up in a frame of this thread, by its id in the operating system
    #[arg(long, value_name = "TID")]
    thread: Option<u64>,

    /// Look names up in this frame, 0 for the innermost one [default thread: the main one]
    #[arg(long, value_name = "N", conflicts_with = "function")]
    frame: Option<usize>,

    /// Look names up in the innermost call of this function
    #[arg(long, value_name = "NAME")]
    function: Option<String>,

    /// Print the attributes that the value stores
    #[arg(short = 'l', long)]
    attributes: bool,

    /// Levels of containers within each other to read
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20))]
    depth: u32,

    /// Items of each container, and attributes, to read
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    items: u32,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `marey eval`, which does not exist.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct EvalArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<OsString>,
}

/// Runs `marey inspect`.
pub(crate) fn inspect(args: &InspectArgs, output: &mut Output) -> Result<(), CommandError> {
    let expression = Expression::parse(&args.expression).map_err(Failure::from)?;
    let scope = Scope { thread: args.thread, frame: args.frame, function: args.function.clone() };
    let limits = ValueLimits { depth: args.depth, items: args.items as usize };
    let inspected = Inspector::open(args.pid)
        .and_then(|mut it| it.read(&expression, &scope, limits, args.attributes))
        .map_err(|error| failure(&error, args.pid))?;
    if args.json {
        return Ok(write_json(output.data(), &inspected)?);
    }
    print_inspected(&inspected, output)?;
    Ok(())
}

/// Returns the failure that explains why there is no `marey eval`.
pub(crate) fn eval(args: &EvalArgs) -> Failure {
    let pid = args.line.first().map_or("PID".into(), |pid| pid.to_string_lossy());
    Failure {
        message: "marey runs no code in other processes: there is no `marey eval`".to_owned(),
        hint: Some(format!(
            "`marey inspect {} EXPR` reads a value from outside, such as model.layers[3].weight",
            printable(&pid)
        )),
    }
}

impl From<ExpressionError> for Failure {
    fn from(error: ExpressionError) -> Self {
        Self {
            message: printable(&error.to_string()).into_owned(),
            hint: Some(READABLE.to_owned()),
        }
    }
}

fn failure(error: &InspectError, pid: u32) -> Failure {
    let hint = match error {
        InspectError::Attach(error) => error.hint(),
        InspectError::Changed => Some("try again, or read an object that changes less".to_owned()),
        InspectError::TooLarge => Some("use a lower --depth or --items".to_owned()),
        InspectError::SeveralThreads { .. } => Some("choose one with --thread".to_owned()),
        InspectError::NoThread(_) | InspectError::NoFrame { .. } => {
            Some(format!("`marey dump {pid}` shows the threads and their frames"))
        }
        InspectError::Computed { path, .. } => {
            Some(format!("`marey inspect {pid} '{path}' -l` lists what is stored"))
        }
        _ => None,
    };
    let similar = error.unknown_name().map(|(name, names)| nearest(name, names));
    let similar = similar.filter(|names| !names.is_empty());
    let suggestion = similar.map(|names| format!("did you mean `{}`?", names.join("`, `")));
    Failure {
        message: printable(&error.to_string()).into_owned(),
        hint: suggestion.or(hint).map(|hint| printable(&hint).into_owned()),
    }
}

fn print_inspected(inspected: &Inspected, output: &mut Output) -> io::Result<()> {
    let name = printable(&inspected.expression).into_owned();
    let name = output.paint.with(Style::Bold, name).to_string();
    print_value("", &name, &inspected.value, output)?;
    let Some(attributes) = &inspected.attributes else { return Ok(()) };
    for (name, value) in attributes {
        print_value("    ", &printable(name), value, output)?;
    }
    if attributes.is_empty() {
        writeln!(output.data(), "    (It stores no attributes)")?;
    }
    Ok(())
}

fn print_value(indent: &str, name: &str, value: &Value, output: &mut Output) -> io::Result<()> {
    let kind = output.paint.with(Style::Dim, class_and_length(value)).to_string();
    let text = value.to_string();
    writeln!(output.data(), "{indent}{name} = {}{kind}", printable(&text))
}

/// Returns the class of a value and its length, as far as the printed value does not show them.
fn class_and_length(value: &Value) -> String {
    use marey_attach::inspect::Content;
    let class = printable(&value.class);
    match (&value.content, value.length) {
        (Content::Object | Content::Large { .. } | Content::None | Content::Module(_), _) => {
            String::new()
        }
        (Content::Text(_), Some(length)) => format!("  ({class}, {length} characters)"),
        (Content::Bytes(_), Some(length)) => format!("  ({class}, {length} bytes)"),
        (_, Some(length)) => format!("  ({class}, {length} items)"),
        (_, None) => format!("  ({class})"),
    }
}
