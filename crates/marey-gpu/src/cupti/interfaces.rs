//! The interfaces of CUDA whose every call can be kept.

use super::abi::constants::{domain, kind};
use marey_model::env;
use marey_record::{device, environment};

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// The driver's: `cuLaunchKernel` and the like.
    pub driver: bool,
    /// The runtime's: `cudaLaunchKernel` and the like.
    pub runtime: bool,
}

impl Interfaces {
    /// Those that the environment names. What it names beside them is said in the profile.
    pub fn from_env() -> Self {
        let text = environment::text(env::CUDA_API).unwrap_or_default();
        let (interfaces, unknown) = Self::parse(&text);
        if !unknown.is_empty() {
            let words = unknown.join(", ");
            device::note(
                "cuda_api",
                format!("{} names {words}, which is neither driver nor runtime", env::CUDA_API),
            );
        }
        interfaces
    }

    /// Those that a text names, and the words of it that name none.
    pub fn parse(text: &str) -> (Self, Vec<&str>) {
        let mut interfaces = Self::default();
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let unknown = words.filter(|word| match word.to_ascii_lowercase().as_str() {
            "driver" => {
                interfaces.driver = true;
                false
            }
            "runtime" => {
                interfaces.runtime = true;
                false
            }
            _ => true,
        });
        let unknown = unknown.collect();
        (interfaces, unknown)
    }

    /// Whether there is any.
    pub const fn is_any(self) -> bool {
        self.driver || self.runtime
    }

    /// Their domains of callbacks, and the kinds of their records.
    pub(super) fn domains(self) -> impl Iterator<Item = (u32, u32)> {
        let driver = self.driver.then_some((domain::DRIVER_API, kind::DRIVER));
        driver.into_iter().chain(self.runtime.then_some((domain::RUNTIME_API, kind::RUNTIME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_names_is_wanted_and_what_it_does_not_know_is_told() {
        let both = Interfaces { driver: true, runtime: true };
        assert_eq!(Interfaces::parse("driver,runtime"), (both, vec![]));
        assert_eq!(Interfaces::parse(" Runtime, driver "), (both, vec![]));
        let runtime = Interfaces { runtime: true, ..Interfaces::default() };
        assert_eq!(Interfaces::parse("runtime,cublas"), (runtime, vec!["cublas"]));
        assert!(!Interfaces::parse("").0.is_any());
    }
}
