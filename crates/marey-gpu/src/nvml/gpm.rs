//! Reads a device's GPM metrics: the utilisation of its units between two samples. Hopper and later
//! devices have them.

use super::query::{QueryFailure, Report};
use marey_model::counter::DeviceCounter;
use nvml_wrapper::Device;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};

/// Bytes in NVML's unit of throughput.
const MEBIBYTE: f64 = 1_048_576.0;

/// Metrics with their counters, and the factor from the metric's to the counter's unit.
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

/// GPM metrics of a device.
#[derive(Debug)]
pub(super) struct Gpm {
    /// Metrics that the device has not rejected.
    metrics: Vec<(GpmMetricId, DeviceCounter, f64)>,
    last_sample: Option<GpmSample<'static>>,
}

impl Gpm {
    /// Returns the metrics of a device that supports GPM.
    pub(super) fn for_device(device: &Device<'_>) -> Option<Self> {
        let is_supported = device.gpm_support().unwrap_or(false);
        is_supported.then(|| Self { metrics: METRICS.to_vec(), last_sample: None })
    }

    /// Takes a sample and reports the metrics since the previous one.
    pub(super) fn read(
        &mut self,
        device: &Device<'static>,
        report: Report<'_>,
    ) -> Result<(), NvmlError> {
        let sample = device.gpm_sample()?;
        if let Some(last_sample) = &self.last_sample {
            let ids: Vec<_> = self.metrics.iter().map(|metric| metric.0).collect();
            let mut values =
                gpm_metrics_get(device.nvml(), last_sample, &sample, &ids)?.into_iter();
            self.metrics.retain(|(_, counter, factor)| match values.next() {
                Some(Ok(metric)) => {
                    if metric.value.is_finite() {
                        report(*counter, metric.value * factor);
                    }
                    true
                }
                Some(Err(error)) => QueryFailure::from(&error) != QueryFailure::Unsupported,
                None => true,
            });
        }
        self.last_sample = Some(sample);
        Ok(())
    }
}
