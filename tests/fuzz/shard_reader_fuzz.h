#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as a shard with any other bytes as its index, as far as that goes: never crashes, hangs, takes more
/// memory than the shard has, or delivers a record whose CRC is wrong; losses and records follow one another.
void fuzz_shard_reader(std::string_view bytes);

/// Makes a good shard with its index, damages it as the bytes say, and reads it with the index and without: every
/// delivered record is the one that was written, and records and losses together make up the shard without a gap.
void fuzz_damaged_shard(std::string_view bytes);

}  // namespace millrace::test
