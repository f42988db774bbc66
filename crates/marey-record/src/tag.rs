//! The type of a metric's value, stored as a number beside its bits.

use marey_model::metric::MetricValue;

/// The type of a metric's value; 0 is no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Int = 1,
    Float = 2,
    Text = 3,
    Ints = 4,
    Floats = 5,
}

impl Tag {
    pub(crate) const fn for_value(value: &MetricValue) -> Self {
        match value {
            MetricValue::Int(_) => Self::Int,
            MetricValue::Float(_) => Self::Float,
            MetricValue::Text(_) => Self::Text,
            MetricValue::Ints(_) => Self::Ints,
            MetricValue::Floats(_) => Self::Floats,
        }
    }

    pub(crate) const fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Int,
            2 => Self::Float,
            3 => Self::Text,
            4 => Self::Ints,
            5 => Self::Floats,
            _ => return None,
        })
    }

    /// Returns the number of extra words for the elements of a value of this length; 0 if one word
    /// is enough.
    pub(crate) const fn extra_words(self, len: u64) -> u64 {
        match self {
            Self::Int | Self::Float => 0,
            Self::Text => len.div_ceil(size_of::<u64>() as u64),
            Self::Ints | Self::Floats => len,
        }
    }
}
