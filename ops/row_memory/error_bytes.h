#pragma once

#include <cstdint>

namespace millrace {

/// What an error takes that is kept in the place of a row, with its message and the name of its shard: about as much.
inline constexpr int64_t kErrorBytes = 512;

}  // namespace millrace
