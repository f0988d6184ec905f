// CRC32C of a record's bytes beside its floor, ISA-L's function alone. `items_per_second` counts records. Each run
// first checks its output.
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

template <typename Crc>
void compute(benchmark::State& state, Crc&& of) {
  std::string bytes(static_cast<size_t>(state.range(0)), '\0');
  uint64_t random = 1;
  for (char& c : bytes) c = static_cast<char>((random = random * 6364136223846793005U + 1442695040888963407U) >> 56);
  if (of(bytes) != crc32c_portable(bytes)) throw std::logic_error("another CRC");
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes.data());
    benchmark::DoNotOptimize(of(bytes));
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}

void crc(benchmark::State& state) {
  compute(state, [](std::string_view bytes) { return crc32c(bytes); });
}
void crc_floor(benchmark::State& state) {
  compute(state, [](std::string& bytes) {
    return ~crc32_iscsi(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size()), ~uint32_t{0});
  });
}

void sizes(benchmark::internal::Benchmark* benchmark) { benchmark->Arg(100)->Arg(1000)->Arg(10000)->Arg(100000); }
BENCHMARK(crc)->Apply(sizes);
BENCHMARK(crc_floor)->Apply(sizes);

}  // namespace
}  // namespace millrace
