//! Converts the device table of a profile to and from the dict that profile files contain.

use marey_model::profile::Device;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const ARCH: &str = "arch";
const BUS_WIDTH: &str = "bus_width";
const CLOCK_RATE: &str = "clock_rate";
const MEMORY_CLOCK_RATE: &str = "memory_clock_rate";
const NUM_SMS: &str = "num_sms";

pub(crate) fn to_python<'py>(py: Python<'py>, devices: &[Device]) -> PyResult<Bound<'py, PyDict>> {
    let families = PyDict::new(py);
    for device in devices {
        let family_dict = if let Some(family_dict) = families.get_item(&device.family)? {
            family_dict.cast_into()?
        } else {
            let family_dict = PyDict::new(py);
            families.set_item(&device.family, &family_dict)?;
            family_dict
        };
        let fields = PyDict::new(py);
        if let Some(arch) = &device.arch {
            fields.set_item(ARCH, arch)?;
        }
        for (key, value) in [
            (BUS_WIDTH, device.bus_width_bits),
            (CLOCK_RATE, device.clock_rate_khz),
            (MEMORY_CLOCK_RATE, device.memory_clock_rate_khz),
            (NUM_SMS, device.num_sms),
        ] {
            if let Some(value) = value {
                fields.set_item(key, value)?;
            }
        }
        family_dict.set_item(&device.id, fields)?;
    }
    Ok(families)
}

pub(crate) fn from_python(families: &Bound<'_, PyDict>) -> PyResult<Vec<Device>> {
    let mut devices = Vec::new();
    for (family, devices_of_family) in families {
        for (id, fields) in devices_of_family.cast::<PyDict>()? {
            let fields = fields.cast::<PyDict>()?;
            let number = |key: &str| -> PyResult<Option<u64>> {
                fields.get_item(key)?.map(|value| value.extract()).transpose()
            };
            let arch = fields.get_item(ARCH)?;
            devices.push(Device {
                family: family.extract()?,
                id: id.str()?.extract()?,
                arch: arch.map(|arch| arch.str()?.extract()).transpose()?,
                bus_width_bits: number(BUS_WIDTH)?,
                clock_rate_khz: number(CLOCK_RATE)?,
                memory_clock_rate_khz: number(MEMORY_CLOCK_RATE)?,
                num_sms: number(NUM_SMS)?,
            });
        }
    }
    Ok(devices)
}
