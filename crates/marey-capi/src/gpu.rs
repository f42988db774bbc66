//! The entries of the C function table that start and pause the recording of GPUs and describe
//! its level.

use crate::ptr::{self, Failure, call_with_status, catch_panic, read_text, send};
use marey_gpu::cupti::interfaces::CudaInterfaces;
use marey_gpu::cupti::search::Hints;
use marey_gpu::level::{self, Level, Request};
use marey_gpu::probe::Question;
use marey_record::table::{ErrorBuffer, GpuLevel, GpuOptions, Sink};
use std::ffi::{c_char, c_void};

pub(crate) unsafe extern "C" fn start(
    options: Option<&GpuOptions>,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    call_with_status(error, || {
        let options = ptr::non_null(options, "options")?;
        // SAFETY: the caller passes a filled-in struct.
        let paths = unsafe { read_text(options.paths, options.paths_len, "options.paths") }?;
        let paths = paths.lines().map(Into::into).collect();
        let request = Request {
            is_required: options.is_required != 0,
            keeps_activities: options.keeps_activities != 0,
            calls: CudaInterfaces::from_env(),
            hints: Hints::from_env(paths),
        };
        level::start(&request).map_err(Failure::unsupported)
    })
}

pub(crate) unsafe extern "C" fn level(sink: Option<Sink>, context: *mut c_void) -> i32 {
    let (level, lines) = catch_panic((GpuLevel::Host, String::new()), describe);
    // SAFETY: the caller passes a function that takes bytes and this context.
    unsafe { send(sink, context, lines.as_bytes()) };
    level as i32
}

pub(crate) unsafe extern "C" fn probe(
    question: *const c_char,
    question_len: usize,
    paths: *const c_char,
    paths_len: usize,
    sink: Option<Sink>,
    context: *mut c_void,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    // SAFETY: the caller passes readable texts, and a function that takes bytes and this context.
    unsafe {
        call_with_status(error, || {
            let question = read_text(question, question_len, "question")?;
            let question = Question::parse(&question)
                .ok_or_else(|| Failure::argument("question", "is not a known question"))?;
            let paths = read_text(paths, paths_len, "paths")?;
            let answer = question.answer(&Hints::from_env(paths.lines().map(Into::into).collect()));
            send(sink, context, answer.as_bytes());
            Ok(())
        })
    }
}

pub(crate) extern "C" fn pause(is_paused: bool) -> bool {
    catch_panic(false, || {
        if is_paused {
            return level::pause();
        }
        level::resume();
        false
    })
}

pub(crate) unsafe extern "C" fn note(note: *const c_char, len: usize) {
    // SAFETY: the caller passes a readable text of `len` bytes.
    let note = unsafe { read_text(note, len, "text") };
    catch_panic((), || drop(note.map(|note| level::note(&note))));
}

fn describe() -> (GpuLevel, String) {
    let lines = |level, text: String, hint: &str, code: Option<u32>| {
        let code = code.map_or_else(String::new, |code| code.to_string());
        (level, format!("{}\n{hint}\n{code}", text.replace('\n', " ")))
    };
    match level::level() {
        Level::Idle => lines(GpuLevel::Idle, "no session records devices".to_owned(), "", None),
        Level::Waiting(_) => {
            lines(GpuLevel::Waiting, "the program has not used CUDA".to_owned(), "", None)
        }
        Level::Cupti(text, _) => lines(GpuLevel::Cupti, text, "", None),
        Level::Paused(_) => {
            lines(GpuLevel::Waiting, "torch.profiler is recording devices".to_owned(), "", None)
        }
        Level::Host(reason) => {
            lines(GpuLevel::Host, reason.to_string(), reason.hint(), reason.code())
        }
    }
}
