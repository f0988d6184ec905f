#pragma once

#include <cstdint>

#include "millrace/formats/error.h"

namespace millrace {

/// Bytes that an error takes which is kept in the place of a row, with what its pointers and texts need beside them.
inline int64_t bytes_of_error(const Error& error) {
  constexpr int64_t kAllocations = 4 * 16;
  return static_cast<int64_t>(sizeof(Error) + error.message.size() + error.shard.size() + error.stage.size()) +
         kAllocations;
}

}  // namespace millrace
