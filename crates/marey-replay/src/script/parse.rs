//! Parser of scripts.

use super::line::{Line, ScriptError};
use super::{CallMode, Script, Statement};
use crate::activity::PROCESS_CLIENT;
use crate::clock::Clock;
use crate::context::{DEFAULT_STREAM, MAX_DEVICES};
use crate::device::Device;
use crate::export::Failure;
use crate::graph::RecordIds;
use crate::name::Name;
use crate::operation::{Copy, Fill, Kernel, Operation, Outcome, TargetIds, Work};
use crate::output::RecordOrder;
use crate::record::Version;
use crate::settings::Settings;
use crate::thread::ExternalId;
use crate::wait::Wait;

type Result<T> = std::result::Result<T, ScriptError>;

/// The target of operations; context 0 stands for that of the device.
const DEFAULT_TARGET: TargetIds = TargetIds { device: 0, context: 0, stream: DEFAULT_STREAM };

pub(crate) const DEFAULT_DURATION_NANOS: u64 = 1_000;

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            lines.extend(Line::parse(index + 1, line)?);
        }
        let mut parser = Parser { lines: lines.into_iter(), declares_devices: false };
        let mut script = Self::default();
        while let Some(mut line) = parser.lines.next() {
            if !parser.parse_setting(&mut line, &mut script.settings)? {
                script.statements.push(parser.parse_statement(line)?);
            }
        }
        Ok(script)
    }
}

struct Parser {
    lines: std::vec::IntoIter<Line>,
    declares_devices: bool,
}

impl Parser {
    /// Parses a setting. Returns false, with the line unchanged, if it is not one.
    fn parse_setting(&mut self, line: &mut Line, settings: &mut Settings) -> Result<bool> {
        let unchanged_line = line.clone();
        match line.required_word("a word")?.as_str() {
            "version" => {
                settings.version = line.number("the version")?;
                if !Version::SUPPORTED.contains(&settings.version) {
                    return Err(
                        line.error(format!("the version must be one of {:?}", Version::SUPPORTED))
                    );
                }
            }
            "driver" => settings.driver_version = line.number("the driver's version")?,
            "delivery" => {
                settings.is_delivered_by_worker =
                    parse_switch(line, "the delivery", "inline", "worker")?;
            }
            "buffers" => {
                settings.is_buffer_per_thread =
                    parse_switch(line, "whose buffers", "shared", "each-thread")?;
            }
            "clock" => settings.clock = parse_clock(line)?,
            "devices" => {
                let count: usize = line.number("the number of devices")?;
                settings.devices = vec![Device::default(); count.min(MAX_DEVICES)];
            }
            "device" => {
                if !self.declares_devices {
                    self.declares_devices = true;
                    settings.devices.clear();
                }
                if settings.devices.len() == MAX_DEVICES {
                    return Err(line.error(format!("there are more than {MAX_DEVICES} devices")));
                }
                settings.devices.push(parse_device(line)?);
            }
            "kernel" => {
                let name = line.required_word("the kernel's name")?;
                let (operation, _, _) =
                    parse_operation(line, Work::Kernel(Kernel::with_name(Name::copied(&name))))?;
                if let Work::Kernel(kernel) = operation.work {
                    settings.kernels.push((name, kernel, operation.duration_nanos));
                }
            }
            "fail" => {
                let function = line.required_word("the function")?;
                let code = line.number("the code")?;
                let call_number = match line.next_word().as_deref() {
                    Some("at") => Some(line.number("the call")?),
                    None => None,
                    Some(word) => return Err(line.error(format!("{word:?} is not \"at\""))),
                };
                settings.failures.push(Failure { function, code, call_number });
            }
            "call" => settings.call_nanos = line.number("the time of a call")?,
            "ids" => {
                settings.has_separate_runtime_ids =
                    parse_switch(line, "the ids", "shared", "separate")?;
            }
            "names" => {
                settings.are_names_temporary =
                    parse_switch(line, "the names", "permanent", "temporary")?;
            }
            "api" => {
                settings.calls_go_through_runtime =
                    parse_switch(line, "the interface", "driver", "runtime")?;
            }
            _ => {
                *line = unchanged_line;
                return Ok(false);
            }
        }
        line.expect_end()?;
        Ok(true)
    }

    fn parse_statement(&mut self, mut line: Line) -> Result<Statement> {
        let is_block = line.opens_block();
        let verb = line.required_word("a word")?;
        if is_block {
            return self.parse_block(&verb, line);
        }
        let statement = match verb.as_str() {
            "launch" | "copy" | "set" => {
                let work = parse_work(&verb, &mut line)?;
                let (operation, target, call_mode) = parse_operation(&mut line, work)?;
                Statement::Run { operation, target, call_mode }
            }
            "synchronize" => {
                let waited_for = line.required_word("what to wait for")?;
                let target = parse_target(&mut line)?;
                let wait = match waited_for.as_str() {
                    "stream" => Wait::Stream,
                    "device" => Wait::Context,
                    _ => return Err(line.error("only a stream or a device is waited for")),
                };
                Statement::Synchronize { wait, target }
            }
            "overhead" => Statement::Overhead {
                kind: parse_overhead(&mut line)?,
                nanos: line.number("the overhead's time")?,
            },
            "name" => parse_name(&mut line)?,
            "mark" => parse_mark(&mut line)?,
            "context" => Statement::CreateContext { device_id: line.number("the device")? },
            "push" => Statement::PushExternalId(ExternalId {
                client: PROCESS_CLIENT,
                kind: line.number("the kind of id")?,
                id: line.number("the id")?,
            }),
            "pop" => Statement::PopExternalId { kind: line.number("the kind of id")? },
            "instantiate" => Statement::Instantiate {
                graph: line.required_word("the graph")?,
                target: parse_target(&mut line)?,
            },
            "destroy" => Statement::DestroyGraph {
                graph: line.required_word("the graph")?,
                target: parse_target(&mut line)?,
            },
            "tool" => Statement::Tool {
                subscribes: parse_keyword(
                    &mut line,
                    "the tool's action",
                    &[("subscribes", true), ("leaves", false)],
                )?,
            },
            "graph" => {
                let graph = line.required_word("the graph")?;
                let are_omitted = line.skip_word("without-ids");
                let ids = if are_omitted { RecordIds::Omitted } else { RecordIds::Written };
                Statement::LaunchGraph { graph, ids, target: parse_target(&mut line)? }
            }
            "drop" => Statement::DropNext { records: line.number("the number of records")? },
            "order" => Statement::Order(parse_order(&mut line)?),
            "correlation" => Statement::Correlation { next: line.number("the correlation id")? },
            "finish" => Statement::Finish,
            "flush" => Statement::Flush { is_forced: parse_flag(&mut line, "forced")? },
            "pass" => Statement::Pass { nanos: line.number("the time")? },
            _ => return Err(line.error(format!("unknown statement {verb:?}"))),
        };
        line.expect_end()?;
        Ok(statement)
    }

    fn parse_block(&mut self, verb: &str, mut line: Line) -> Result<Statement> {
        match verb {
            "repeat" => {
                let times = line.number("the number of times")?;
                Ok(Statement::Repeat { times, statements: self.parse_block_body(line)?.into() })
            }
            "thread" => Ok(Statement::Thread { statements: self.parse_block_body(line)?.into() }),
            "single-call" => {
                let opening = line.clone();
                let mut operations = Vec::new();
                for statement in self.parse_block_body(line)? {
                    let Statement::Run { operation, target, call_mode: CallMode::Call } = statement
                    else {
                        return Err(opening.error("only operations can share a call"));
                    };
                    operations.push((operation, target));
                }
                Ok(Statement::RunTogether { operations })
            }
            "part" => {
                let name = line.required_word("the part's name")?;
                Ok(Statement::Part { name, statements: self.parse_block_body(line)?.into() })
            }
            "capture" => {
                let graph = line.required_word("the graph")?;
                let target = parse_target(&mut line)?;
                let opening = line.clone();
                let mut operations = Vec::new();
                for statement in self.parse_block_body(line)? {
                    let Statement::Run { operation, .. } = statement else {
                        return Err(opening.error("only operations can be captured"));
                    };
                    operations.push(operation);
                }
                Ok(Statement::Capture { graph, operations, target })
            }
            _ => Err(line.error(format!("{verb:?} is not a block"))),
        }
    }

    fn parse_block_body(&mut self, mut opening: Line) -> Result<Vec<Statement>> {
        opening.expect_end()?;
        let mut statements = Vec::new();
        while let Some(line) = self.lines.next() {
            if line.closes_block() {
                return Ok(statements);
            }
            statements.push(self.parse_statement(line)?);
        }
        Err(opening.error("the block is not closed"))
    }
}

fn parse_keyword<T: std::marker::Copy>(
    line: &mut Line,
    what: &str,
    keywords: &[(&str, T)],
) -> Result<T> {
    let word = line.required_word(what)?;
    let keyword = keywords.iter().find(|(name, _)| *name == word);
    keyword.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = keywords.iter().map(|(name, _)| *name).collect();
        line.error(format!("{what} is {word:?}, but must be one of {names:?}"))
    })
}

/// Parses one of two words. Returns whether it is the second one.
fn parse_switch(line: &mut Line, what: &str, off: &str, on: &str) -> Result<bool> {
    parse_keyword(line, what, &[(off, false), (on, true)])
}

fn parse_flag(line: &mut Line, name: &str) -> Result<bool> {
    match line.next_word() {
        None => Ok(false),
        Some(word) if word == name => Ok(true),
        Some(word) => Err(line.error(format!("{word:?} is not {name:?}"))),
    }
}

fn parse_clock(line: &mut Line) -> Result<Clock> {
    let is_real = parse_switch(line, "the clock", "virtual", "real")?;
    let (mut start_nanos, mut offset_nanos, mut drift_parts_per_million) = (1_000_000_000, 0, 0);
    while let Some(option) = line.next_word() {
        match option.as_str() {
            "start" if !is_real => start_nanos = line.number("the start")?,
            "offset" if is_real => offset_nanos = line.number("the offset")?,
            "drift" if is_real => drift_parts_per_million = line.number("the drift")?,
            _ => return Err(line.error(format!("unknown clock option {option:?}"))),
        }
    }
    Ok(if is_real {
        Clock::Real { offset_nanos, drift_parts_per_million }
    } else {
        Clock::Virtual { start_nanos }
    })
}

fn parse_device(line: &mut Line) -> Result<Device> {
    let mut device = Device { name: line.required_word("the device's name")?, ..Device::default() };
    while let Some(option) = line.next_word() {
        match option.as_str() {
            "arch" => device.arch = line.number(&option)?,
            "sms" => device.multiprocessors = line.number(&option)?,
            "clock" => device.clock_khz = line.number(&option)?,
            "memory-clock" => device.memory_clock_khz = line.number(&option)?,
            "bus" => device.bus_width_bits = line.number(&option)?,
            "memory" => device.memory_bytes = line.number(&option)?,
            "l2" => device.l2_bytes = line.number(&option)?,
            "uuid" => device.uuid = Some(line.number(&option)?),
            _ => return Err(line.error(format!("unknown device option {option:?}"))),
        }
    }
    Ok(device)
}

fn parse_work(verb: &str, line: &mut Line) -> Result<Work> {
    Ok(match verb {
        "launch" => {
            Work::Kernel(Kernel::with_name(Name::copied(&line.required_word("the kernel")?)))
        }
        "copy" => {
            let kinds = [("to-device", 1), ("to-host", 2), ("on-device", 8)];
            let kind: u8 = parse_keyword(line, "the kind of copy", &kinds)?;
            let bytes = line.number("the bytes")?;
            Work::Copy(match kind {
                1 => Copy::to_device(bytes, true),
                2 => Copy::to_host(bytes, true),
                _ => Copy::on_device(bytes, true),
            })
        }
        _ => Work::Fill(Fill { bytes: line.number("the bytes")?, value: 0 }),
    })
}

/// Parses the options of an operation, up to the end of the line.
fn parse_operation(line: &mut Line, work: Work) -> Result<(Operation, TargetIds, CallMode)> {
    let mut operation = Operation::new(work, DEFAULT_DURATION_NANOS);
    let mut target = DEFAULT_TARGET;
    let mut call_mode = CallMode::Call;
    while let Some(option) = line.next_word() {
        if parse_target_option(&option, line, &mut target)?
            || parse_work_option(&option, line, &mut operation.work)?
        {
            continue;
        }
        match option.as_str() {
            "duration" => operation.duration_nanos = line.number(&option)?,
            "gap" => operation.gap_nanos = line.number(&option)?,
            "correlation" => {
                call_mode = CallMode::CallWithId { correlation_id: line.number(&option)? }
            }
            "uncalled" => call_mode = CallMode::NoCall { correlation_id: line.number(&option)? },
            "unrecorded" => operation.outcome = Outcome::Unrecorded,
            "untimed" => operation.outcome = Outcome::Untimed,
            "backwards" => operation.outcome = Outcome::Backwards,
            "unfinished" if matches!(work, Work::Kernel(_)) => {
                operation.outcome = Outcome::Unfinished;
            }
            _ => return Err(line.error(format!("unknown option {option:?}"))),
        }
    }
    Ok((operation, with_context(target), call_mode))
}

fn parse_work_option(option: &str, line: &mut Line, work: &mut Work) -> Result<bool> {
    match (work, option) {
        (Work::Kernel(kernel), "grid") => kernel.grid = line.extent(option, 1)?,
        (Work::Kernel(kernel), "block") => kernel.block = line.extent(option, 1)?,
        (Work::Kernel(kernel), "cluster") => kernel.cluster = line.extent(option, 1)?,
        (Work::Kernel(kernel), "registers") => kernel.registers = line.number(option)?,
        (Work::Kernel(kernel), "shared") => kernel.dynamic_shared_bytes = line.number(option)?,
        (Work::Kernel(kernel), "static-shared") => {
            kernel.static_shared_bytes = line.number(option)?;
        }
        (Work::Kernel(kernel), "local") => kernel.local_bytes = line.number(option)?,
        (Work::Copy(copy), "blocking") => copy.is_async = false,
        (Work::Copy(copy), "peer") => copy.peer_device_id = Some(line.number(option)?),
        (Work::Copy(copy), "from") => copy.source = parse_memory(line)?,
        (Work::Copy(copy), "to") => copy.target = parse_memory(line)?,
        (Work::Fill(set), "value") => set.value = line.number(option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `CUpti_ActivityMemoryKind`.
fn parse_memory(line: &mut Line) -> Result<u8> {
    let kinds = [("pageable", 1), ("pinned", 2), ("device", 3), ("array", 4), ("managed", 5)];
    parse_keyword(line, "the memory", &kinds)
}

fn parse_target_option(option: &str, line: &mut Line, target: &mut TargetIds) -> Result<bool> {
    match option {
        "stream" => target.stream = line.number(option)?,
        "device" => target.device = line.number(option)?,
        "context" => target.context = line.number(option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_target(line: &mut Line) -> Result<TargetIds> {
    let mut target = DEFAULT_TARGET;
    while let Some(option) = line.next_word() {
        if !parse_target_option(&option, line, &mut target)? {
            return Err(line.error(format!("unknown option {option:?}")));
        }
    }
    Ok(with_context(target))
}

/// Returns the target with the device's context, unless the script selects a context.
const fn with_context(target: TargetIds) -> TargetIds {
    TargetIds {
        context: if target.context == 0 { target.device + 1 } else { target.context },
        ..target
    }
}

/// `CUpti_ActivityOverheadKind`.
fn parse_overhead(line: &mut Line) -> Result<u32> {
    let kinds = [
        ("compiler", 1),
        ("buffer-flush", 1 << 16),
        ("instrumentation", 2 << 16),
        ("resource", 3 << 16),
        ("module-loading", 4 << 16),
        ("function-loading", 5 << 16),
        ("command-buffer-full", 6 << 16),
        ("buffer-request", 7 << 16),
    ];
    parse_keyword(line, "the overhead", &kinds)
}

fn parse_name(line: &mut Line) -> Result<Statement> {
    let object_kind =
        parse_keyword(line, "what is named", &[("device", 3), ("context", 4), ("stream", 5)])?;
    // Device, its context, and the context's stream.
    let mut object = [0, 1, DEFAULT_STREAM];
    object[object_kind as usize - 3] = line.number("its number")?;
    Ok(Statement::Name { object_kind, object, name: line.required_word("the name")? })
}

fn parse_mark(line: &mut Line) -> Result<Statement> {
    let name = line.required_word("the mark's name")?;
    let (mut domain, mut id, mut flags) = (None, 0, 1);
    while let Some(option) = line.next_word() {
        match option.as_str() {
            "domain" => domain = Some(line.required_word("the domain")?),
            "id" => id = line.number("the id")?,
            "start" => flags = 2,
            "end" => flags = 4,
            _ => return Err(line.error(format!("unknown mark option {option:?}"))),
        }
    }
    Ok(Statement::Mark { name, domain, id, flags })
}

fn parse_order(line: &mut Line) -> Result<RecordOrder> {
    Ok(match line.required_word("the order")?.as_str() {
        "as-they-come" => RecordOrder::AsTheyCome,
        "held" => RecordOrder::Held,
        "reversed" => RecordOrder::Reversed { window: line.number("the number of records")? },
        "shuffled" => RecordOrder::Shuffled {
            window: line.number("the number of records")?,
            seed: line.number("the seed")?,
        },
        order => return Err(line.error(format!("unknown order {order:?}"))),
    })
}
