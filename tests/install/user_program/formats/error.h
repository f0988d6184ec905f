#pragma once

#include <stdexcept>

/// The user's own.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
