//! The entries of the C function table that switch the recording of PyTorch's operators, their
//! shapes and their ids.

use crate::ptr::{Failure, call_with_status, catch_panic};
use marey_record::table::ErrorBuffer;
use marey_torch::autograd::AutogradFields;
use marey_torch::inputs::InputFields;
use marey_torch::shapes::{self, Shapes};
use marey_torch::{ids, operators};

pub(crate) extern "C" fn shapes(shapes: u32, fields: u64) {
    let shapes = match shapes {
        1 => Shapes::Sampled,
        2 => Shapes::All,
        _ => Shapes::Off,
    };
    catch_panic((), || shapes::set(shapes, InputFields::from_packed(fields)));
}

pub(crate) extern "C" fn operators(
    is_on: bool,
    sequence: u8,
    forward_thread: u8,
    error: Option<&mut ErrorBuffer>,
) -> i32 {
    call_with_status(error, || {
        if is_on {
            let fields = AutogradFields { sequence, forward_thread };
            return operators::start(fields).map_err(Failure::unsupported);
        }
        operators::stop();
        Ok(())
    })
}

pub(crate) extern "C" fn ids(is_on: bool, error: Option<&mut ErrorBuffer>) -> i32 {
    call_with_status(error, || {
        if is_on {
            return ids::start().map_err(Failure::unsupported);
        }
        ids::stop();
        Ok(())
    })
}
