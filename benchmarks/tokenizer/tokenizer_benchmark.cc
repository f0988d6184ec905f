// How fast a tokenizer.json makes tokens of the lines of a text, on one thread:
//   tokenizer_benchmark TOKENIZER TEXT [options of Google Benchmark]
// `bytes_per_second` counts the text, `items_per_second` its lines. Both ways to encode must give the same ids; their
// number and a digest are printed, to compare with another program's.
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "millrace/tokenizer/tokenizer.h"

namespace millrace {
namespace {

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void count(benchmark::State& state, const std::vector<std::string>& lines) {
  int64_t bytes = 0;
  for (const std::string& line : lines) bytes += static_cast<int64_t>(line.size());
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(lines.size()));
}

// All members of the encoding.
void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  for (auto _ : state) {
    for (const std::string& line : lines) benchmark::DoNotOptimize(tokenizer.encode(line));
  }
  count(state, lines);
}

void encode_ids(benchmark::State& state, const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  std::vector<int32_t> ids;
  for (auto _ : state) {
    for (const std::string& line : lines) {
      ids.clear();
      tokenizer.encode_ids(line, /*add_special_tokens=*/true, ids);
      benchmark::DoNotOptimize(ids.data());
    }
  }
  count(state, lines);
}

void decode(benchmark::State& state, const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  std::vector<std::vector<int32_t>> ids(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) tokenizer.encode_ids(lines[i], true, ids[i]);
  for (auto _ : state) {
    for (const std::vector<int32_t>& line : ids) benchmark::DoNotOptimize(tokenizer.decode(line));
  }
  count(state, lines);
}

// Of the ids of all lines, in order. FNV-1a: a few lines in any language.
void print_digest(const Tokenizer& tokenizer, const std::vector<std::string>& lines) {
  uint64_t digest = 0xcbf29ce484222325U;
  size_t num_ids = 0;
  for (const std::string& line : lines) {
    std::vector<int32_t> ids;
    tokenizer.encode_ids(line, /*add_special_tokens=*/true, ids);
    if (ids != tokenizer.encode(line).ids) throw std::runtime_error("encode and encode_ids differ: " + line);
    for (const int32_t id : ids) digest = (digest ^ static_cast<uint64_t>(id)) * 0x100000001b3U;
    num_ids += ids.size();
  }
  std::fprintf(stderr, "%zu ids, digest %016llx\n", num_ids, static_cast<unsigned long long>(digest));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_benchmark TOKENIZER TEXT [--benchmark_...]\n");
    return 2;
  }
  try {
    const auto tokenizer = millrace::Tokenizer::load(argv[1]);
    const std::vector<std::string> lines = millrace::read_lines(argv[2]);
    millrace::print_digest(tokenizer, lines);
    using Run = void (*)(benchmark::State&, const millrace::Tokenizer&, const std::vector<std::string>&);
    const std::pair<const char*, Run> runs[] = {
        {"encode", millrace::encode}, {"encode_ids", millrace::encode_ids}, {"decode", millrace::decode}};
    for (const auto& [name, run] : runs) {
      benchmark::RegisterBenchmark(name, [&, run = run](benchmark::State& state) { run(state, tokenizer, lines); });
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_benchmark: %s\n", error.what());
    return 1;
  }
}
