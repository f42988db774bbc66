//! A double of NVIDIA's libraries: plays a script of launches into whatever profiler loads it.
