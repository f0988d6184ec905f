#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

/// Copies eight bytes and a row behind them past the caches (non-temporal stores), for rows that are read long after
/// and most likely by another core. An ordinary store first fetches the line that it writes, out of the cache of
/// whoever read it last; this one does not, and leaves the caches to what is read soon. `to` is the begin of a cache
/// line, and all of the last line that is begun may be written. Others see the row after `flush_streamed_rows`.
void stream_row(std::byte* to, uint64_t header, std::string_view row);
/// To be called by the thread that streamed rows, before others learn of them.
void flush_streamed_rows();

}  // namespace millrace
