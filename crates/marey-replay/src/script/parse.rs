//! Parser of scripts.

use super::line::{Line, ScriptError};
use super::{Act, CallBy, Script};
use crate::activity::PROCESS;
use crate::clock::Clock;
use crate::context::{DEFAULT_STREAM, MAX_DEVICES};
use crate::device::Device;
use crate::graph::RecordIds;
use crate::name::Name;
use crate::operation::{Copy, Fate, Kernel, Operation, Set, Target, Work};
use crate::output::Order;
use crate::record::Version;
use crate::settings::Settings;
use crate::site::Failure;
use crate::thread::External;

type Result<T> = std::result::Result<T, ScriptError>;

/// Default duration of operations.
pub(crate) const DEFAULT_NANOS: u64 = 1_000;

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            lines.extend(Line::parse(index + 1, line)?);
        }
        let mut parser = Parser { lines: lines.into_iter(), declares_devices: false };
        let mut script = Self::default();
        while let Some(mut line) = parser.lines.next() {
            if !parser.setting(&mut line, &mut script.settings)? {
                script.acts.push(parser.act(line)?);
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
    fn setting(&mut self, line: &mut Line, settings: &mut Settings) -> Result<bool> {
        let start = line.clone();
        match line.required_word("a word")?.as_str() {
            "version" => {
                settings.version = line.number("the version")?;
                if !Version::KNOWN.contains(&settings.version) {
                    return Err(
                        line.error(format!("the version must be one of {:?}", Version::KNOWN))
                    );
                }
            }
            "driver" => settings.driver_version = line.number("the driver's version")?,
            "delivery" => {
                settings.is_delivered_by_worker =
                    keyword(line, "the delivery", &[("inline", false), ("worker", true)])?;
            }
            "buffers" => {
                settings.has_each_thread_a_buffer =
                    keyword(line, "whose buffers", &[("shared", false), ("each-thread", true)])?;
            }
            "clock" => settings.clock = clock(line)?,
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
                settings.devices.push(device(line)?);
            }
            "kernel" => {
                let name = line.required_word("the kernel's name")?;
                let (operation, _, _) =
                    operation(line, Work::Kernel(Kernel::named(Name::copied(&name))))?;
                if let Work::Kernel(kernel) = operation.work {
                    settings.kernels.push((name, kernel, operation.nanos));
                }
            }
            "fail" => {
                let function = line.required_word("the function")?;
                let code = line.number("the code")?;
                let call = match line.word().as_deref() {
                    Some("at") => Some(line.number("the call")?),
                    None => None,
                    Some(word) => return Err(line.error(format!("{word:?} is not \"at\""))),
                };
                settings.failures.push(Failure { function, code, call });
            }
            "call" => settings.call_nanos = line.number("the time of a call")?,
            "ids" => {
                settings.has_runtime_own_ids =
                    keyword(line, "the ids", &[("shared", false), ("separate", true)])?;
            }
            "names" => {
                settings.are_names_temporary =
                    keyword(line, "the names", &[("permanent", false), ("temporary", true)])?;
            }
            "api" => {
                settings.is_runtime_called =
                    keyword(line, "the interface", &[("driver", false), ("runtime", true)])?;
            }
            _ => {
                *line = start;
                return Ok(false);
            }
        }
        line.end()?;
        Ok(true)
    }

    fn act(&mut self, mut line: Line) -> Result<Act> {
        let is_block = line.opens_block();
        let verb = line.required_word("a word")?;
        if is_block {
            return self.block(&verb, line);
        }
        let act = match verb.as_str() {
            "launch" | "copy" | "set" => {
                let operation_kind = operation_kind(&verb, &mut line)?;
                let (operation, target, by) = operation(&mut line, operation_kind)?;
                Act::Run { operation, target, by }
            }
            "synchronize" => {
                let waited_for = line.required_word("what to wait for")?;
                let target = target(&mut line)?;
                match waited_for.as_str() {
                    "stream" => Act::SynchronizeStream { target },
                    "device" => Act::SynchronizeDevice { target },
                    _ => return Err(line.error("only a stream or a device is waited for")),
                }
            }
            "overhead" => Act::Overhead {
                kind: overhead(&mut line)?,
                nanos: line.number("the overhead's time")?,
            },
            "name" => name(&mut line)?,
            "mark" => mark(&mut line)?,
            "context" => Act::CreateContext { device: line.number("the device")? },
            "push" => Act::PushExternal(External {
                client: PROCESS,
                kind: line.number("the kind of id")?,
                id: line.number("the id")?,
            }),
            "pop" => Act::PopExternal { kind: line.number("the kind of id")? },
            "instantiate" => Act::Instantiate {
                graph: line.required_word("the graph")?,
                target: target(&mut line)?,
            },
            "destroy" => Act::DestroyGraph {
                graph: line.required_word("the graph")?,
                target: target(&mut line)?,
            },
            "tool" => Act::Tool {
                subscribes: keyword(
                    &mut line,
                    "the tool's act",
                    &[("subscribes", true), ("leaves", false)],
                )?,
            },
            "graph" => {
                let graph = line.required_word("the graph")?;
                let are_omitted = line.skip_word("without-ids");
                let ids = if are_omitted { RecordIds::Omitted } else { RecordIds::Written };
                Act::LaunchGraph { graph, ids, target: target(&mut line)? }
            }
            "drop" => Act::DropNext { records: line.number("the number of records")? },
            "order" => Act::Order(order(&mut line)?),
            "correlation" => Act::Correlation { next: line.number("the correlation id")? },
            "finish" => Act::Finish,
            "flush" => Act::Flush { is_forced: flag(&mut line, "forced")? },
            "pass" => Act::Pass { nanos: line.number("the time")? },
            _ => return Err(line.error(format!("unknown statement {verb:?}"))),
        };
        line.end()?;
        Ok(act)
    }

    fn block(&mut self, verb: &str, mut line: Line) -> Result<Act> {
        match verb {
            "repeat" => {
                let times = line.number("the number of times")?;
                Ok(Act::Repeat { times, acts: self.acts(line)?.into() })
            }
            "thread" => Ok(Act::Thread { acts: self.acts(line)?.into() }),
            "single-call" => {
                let opening = line.clone();
                let mut operations = Vec::new();
                for act in self.acts(line)? {
                    let Act::Run { operation, target, by: CallBy::Call } = act else {
                        return Err(opening.error("only operations can share a call"));
                    };
                    operations.push((operation, target));
                }
                Ok(Act::RunTogether { operations })
            }
            "part" => {
                let name = line.required_word("the part's name")?;
                Ok(Act::Part { name, acts: self.acts(line)?.into() })
            }
            "capture" => {
                let graph = line.required_word("the graph")?;
                let target = target(&mut line)?;
                let opening = line.clone();
                let mut operations = Vec::new();
                for act in self.acts(line)? {
                    let Act::Run { operation, .. } = act else {
                        return Err(opening.error("only operations can be captured"));
                    };
                    operations.push(operation);
                }
                Ok(Act::Capture { graph, operations, target })
            }
            _ => Err(line.error(format!("{verb:?} is not a block"))),
        }
    }

    fn acts(&mut self, mut opening: Line) -> Result<Vec<Act>> {
        opening.end()?;
        let mut acts = Vec::new();
        while let Some(line) = self.lines.next() {
            if line.closes_block() {
                return Ok(acts);
            }
            acts.push(self.act(line)?);
        }
        Err(opening.error("the block is not closed"))
    }
}

fn keyword<T: std::marker::Copy>(line: &mut Line, what: &str, known: &[(&str, T)]) -> Result<T> {
    let word = line.required_word(what)?;
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        line.error(format!("{what} is {word:?}, but must be one of {names:?}"))
    })
}

fn flag(line: &mut Line, name: &str) -> Result<bool> {
    match line.word() {
        None => Ok(false),
        Some(word) if word == name => Ok(true),
        Some(word) => Err(line.error(format!("{word:?} is not {name:?}"))),
    }
}

fn clock(line: &mut Line) -> Result<Clock> {
    let is_real = keyword(line, "the clock", &[("virtual", false), ("real", true)])?;
    let (mut start_nanos, mut offset_nanos, mut drift_parts_per_million) = (1_000_000_000, 0, 0);
    while let Some(option) = line.word() {
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

fn device(line: &mut Line) -> Result<Device> {
    let mut device = Device { name: line.required_word("the device's name")?, ..Device::default() };
    while let Some(option) = line.word() {
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

fn operation_kind(verb: &str, line: &mut Line) -> Result<Work> {
    Ok(match verb {
        "launch" => Work::Kernel(Kernel::named(Name::copied(&line.required_word("the kernel")?))),
        "copy" => {
            let kinds = [("to-device", 1), ("to-host", 2), ("on-device", 8)];
            let kind: u8 = keyword(line, "the kind of copy", &kinds)?;
            let bytes = line.number("the bytes")?;
            Work::Copy(match kind {
                1 => Copy::to_device(bytes, true),
                2 => Copy::to_host(bytes, true),
                _ => Copy::on_device(bytes, true),
            })
        }
        _ => Work::Set(Set { bytes: line.number("the bytes")?, value: 0 }),
    })
}

/// Parses the options of an operation, up to the end of the line.
fn operation(line: &mut Line, operation_kind: Work) -> Result<(Operation, Target, CallBy)> {
    let mut operation = Operation::new(operation_kind, DEFAULT_NANOS);
    let mut target = Target { device: 0, context: 0, stream: DEFAULT_STREAM };
    let mut by = CallBy::Call;
    while let Some(option) = line.word() {
        if target_option(&option, line, &mut target)?
            || work_option(&option, line, &mut operation.work)?
        {
            continue;
        }
        match option.as_str() {
            "duration" => operation.nanos = line.number(&option)?,
            "gap" => operation.gap_nanos = line.number(&option)?,
            "correlation" => by = CallBy::CallAs { correlation: line.number(&option)? },
            "uncalled" => by = CallBy::Nothing { correlation: line.number(&option)? },
            "unrecorded" => operation.fate = Fate::Unrecorded,
            "untimed" => operation.fate = Fate::Untimed,
            "backwards" => operation.fate = Fate::Backwards,
            "unfinished" if matches!(operation_kind, Work::Kernel(_)) => {
                operation.fate = Fate::Unfinished;
            }
            _ => return Err(line.error(format!("unknown option {option:?}"))),
        }
    }
    Ok((operation, with_context(target), by))
}

fn work_option(option: &str, line: &mut Line, operation_kind: &mut Work) -> Result<bool> {
    match (operation_kind, option) {
        (Work::Kernel(kernel), "grid") => kernel.grid = line.extent(option, 1)?,
        (Work::Kernel(kernel), "block") => kernel.block = line.extent(option, 1)?,
        (Work::Kernel(kernel), "cluster") => kernel.cluster = line.extent(option, 1)?,
        (Work::Kernel(kernel), "registers") => kernel.registers = line.number(option)?,
        (Work::Kernel(kernel), "shared") => kernel.dynamic_shared = line.number(option)?,
        (Work::Kernel(kernel), "static-shared") => kernel.static_shared = line.number(option)?,
        (Work::Kernel(kernel), "local") => kernel.local = line.number(option)?,
        (Work::Copy(copy), "blocking") => copy.is_async = false,
        (Work::Copy(copy), "peer") => copy.peer = Some(line.number(option)?),
        (Work::Copy(copy), "from") => copy.source = memory(line)?,
        (Work::Copy(copy), "to") => copy.target = memory(line)?,
        (Work::Set(set), "value") => set.value = line.number(option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `CUpti_ActivityMemoryKind`.
fn memory(line: &mut Line) -> Result<u8> {
    let kinds = [("pageable", 1), ("pinned", 2), ("device", 3), ("array", 4), ("managed", 5)];
    keyword(line, "the memory", &kinds)
}

fn target_option(option: &str, line: &mut Line, target: &mut Target) -> Result<bool> {
    match option {
        "stream" => target.stream = line.number(option)?,
        "device" => target.device = line.number(option)?,
        "context" => target.context = line.number(option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn target(line: &mut Line) -> Result<Target> {
    let mut target = Target { device: 0, context: 0, stream: DEFAULT_STREAM };
    while let Some(option) = line.word() {
        if !target_option(&option, line, &mut target)? {
            return Err(line.error(format!("unknown option {option:?}")));
        }
    }
    Ok(with_context(target))
}

/// Completes a place with the device's context if none was given.
const fn with_context(target: Target) -> Target {
    Target {
        context: if target.context == 0 { target.device + 1 } else { target.context },
        ..target
    }
}

/// `CUpti_ActivityOverheadKind`.
fn overhead(line: &mut Line) -> Result<u32> {
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
    keyword(line, "the overhead", &kinds)
}

fn name(line: &mut Line) -> Result<Act> {
    let object_kind =
        keyword(line, "what is named", &[("device", 3), ("context", 4), ("stream", 5)])?;
    // Device, its context, and the context's stream.
    let mut object = [0, 1, DEFAULT_STREAM];
    object[object_kind as usize - 3] = line.number("its number")?;
    Ok(Act::Name { object_kind, object, name: line.required_word("the name")? })
}

fn mark(line: &mut Line) -> Result<Act> {
    let name = line.required_word("the mark's name")?;
    let (mut domain, mut id, mut flags) = (None, 0, 1);
    while let Some(option) = line.word() {
        match option.as_str() {
            "domain" => domain = Some(line.required_word("the domain")?),
            "id" => id = line.number("the id")?,
            "start" => flags = 2,
            "end" => flags = 4,
            _ => return Err(line.error(format!("unknown mark option {option:?}"))),
        }
    }
    Ok(Act::Mark { name, domain, id, flags })
}

fn order(line: &mut Line) -> Result<Order> {
    Ok(match line.required_word("the order")?.as_str() {
        "as-they-come" => Order::AsTheyCome,
        "held" => Order::Held,
        "reversed" => Order::Reversed { window: line.number("the number of records")? },
        "shuffled" => Order::Shuffled {
            window: line.number("the number of records")?,
            seed: line.number("the seed")?,
        },
        order => return Err(line.error(format!("unknown order {order:?}"))),
    })
}
