/// @file
/// `marey/xsigma.hpp` under the name that programs for XSigma include.
#include "../../../xsigma.hpp"
