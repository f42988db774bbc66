//! GPM: what the parts of a device did between two readings. Hopper and later.

use super::query::{Refusal, Tell};
use marey_model::counter::DeviceCounter;
use nvml_wrapper::Device;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

/// Bytes of the unit that GPM has for throughput.
const MEBIBYTE: f64 = 1_048_576.0;

/// Each metric, its counter, and what its unit is of the counter's.
const METRICS: [(GpmMetricId, DeviceCounter, f64); 16] = [
    (GpmMetricId::GraphicsUtil, DeviceCounter::GraphicsActive, 1.0),
    (GpmMetricId::SmUtil, DeviceCounter::SmActive, 1.0),
    (GpmMetricId::SmOccupancy, DeviceCounter::SmOccupancy, 1.0),
    (GpmMetricId::IntegerUtil, DeviceCounter::IntegerActive, 1.0),
    (GpmMetricId::AnyTensorUtil, DeviceCounter::TensorActive, 1.0),
    (GpmMetricId::DfmaTensorUtil, DeviceCounter::TensorFp64Active, 1.0),
    (GpmMetricId::HmmaTensorUtil, DeviceCounter::TensorFp16Active, 1.0),
    (GpmMetricId::ImmaTensorUtil, DeviceCounter::TensorIntegerActive, 1.0),
    (GpmMetricId::DramBwUtil, DeviceCounter::DramActive, 1.0),
    (GpmMetricId::Fp64Util, DeviceCounter::Fp64Active, 1.0),
    (GpmMetricId::Fp32Util, DeviceCounter::Fp32Active, 1.0),
    (GpmMetricId::Fp16Util, DeviceCounter::Fp16Active, 1.0),
    (GpmMetricId::PcieRxPerSec, DeviceCounter::PcieReceived, MEBIBYTE),
    (GpmMetricId::PcieTxPerSec, DeviceCounter::PcieSent, MEBIBYTE),
    (GpmMetricId::NvlinkTotalRxPerSec, DeviceCounter::NvlinkReceived, MEBIBYTE),
    (GpmMetricId::NvlinkTotalTxPerSec, DeviceCounter::NvlinkSent, MEBIBYTE),
];

/// The metrics of a device.
#[derive(Debug)]
pub(super) struct Gpm {
    /// Those that the device has, as far as it has told.
    metrics: Vec<(GpmMetricId, DeviceCounter, f64)>,
    last: Option<GpmSample<'static>>,
}

impl Gpm {
    /// Those of a device that has them.
    pub(super) fn of(device: &Device<'_>) -> Option<Self> {
        let has_them = device.gpm_support().unwrap_or(false);
        has_them.then(|| Self { metrics: METRICS.to_vec(), last: None })
    }

    /// Takes a sample, and tells what happened since the one before.
    pub(super) fn read(
        &mut self,
        device: &Device<'static>,
        tell: Tell<'_>,
    ) -> Result<(), NvmlError> {
        let sample = device.gpm_sample()?;
        if let Some(last) = &self.last {
            let ids: Vec<_> = self.metrics.iter().map(|metric| metric.0).collect();
            let mut values = gpm_metrics_get(device.nvml(), last, &sample, &ids)?.into_iter();
            self.metrics.retain(|(_, counter, unit)| match values.next() {
                Some(Ok(metric)) => {
                    if metric.value.is_finite() {
                        tell(*counter, metric.value * unit);
                    }
                    true
                }
                Some(Err(error)) => Refusal::from(&error) != Refusal::NotThere,
                None => true,
            });
        }
        self.last = Some(sample);
        Ok(())
    }
}
