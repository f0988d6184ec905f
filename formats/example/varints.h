#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

/// A run of protobuf varints being decoded: input [at, end), output [values, last).
template <typename T>
struct VarintRun {
  const uint8_t* at;
  const uint8_t* end;
  T* values;
  T* last;
};

/// Decodes varints of up to four bytes, as many as it can with the widest instructions of the machine, and moves the
/// run's pointers after them. It stops before a longer varint, near the end of the input and near the end of the
/// output; whoever calls goes on from there one at a time. Writes nothing at or beyond `last`, but may write values
/// that are not meant after `values`, which later ones replace.
void decode_varints(VarintRun<int32_t>& run);
void decode_varints(VarintRun<int64_t>& run);

/// How many varints end in these bytes.
size_t count_varints(std::string_view bytes);

// The two ways to decode: by steps of eight bytes on every machine that has vectors, and for AVX-512 VBMI2, only where
// there is that.
void decode_varints_portable(VarintRun<int32_t>& run);
void decode_varints_portable(VarintRun<int64_t>& run);
bool has_avx512_varints();
void decode_varints_avx512(VarintRun<int32_t>& run);
void decode_varints_avx512(VarintRun<int64_t>& run);

}  // namespace millrace
