#include "benchmarks/workloads.h"

#include <array>

#include <fmt/format.h>

#include "pipeline/definition/pipeline_def.h"

namespace millrace {
namespace {

Dataset read_workload(const BenchOptions& options) {
  return Dataset::tfrecord(Shards::glob(options.shards), {.cycle_length = static_cast<size_t>(options.cycle_length),
                                                          .ordered = options.ordered,
                                                          .damage = options.damage})
      .repeat()
      .batch(options.batch, {.drop_remainder = true})
      .prefetch(2);
}

// The masked language model of RoBERTa as trained from scratch: ids and mask of 512 positions, new masks each epoch.
Dataset mlm_workload(const BenchOptions& options) {
  constexpr int64_t kLength = 512;
  return Dataset::tfrecord(Shards::glob(options.shards), {.cycle_length = static_cast<size_t>(options.cycle_length),
                                                          .shuffle_shards = true,
                                                          .seed = options.seed,
                                                          .ordered = options.ordered,
                                                          .damage = options.damage})
      .parse_example({fixed_len("input_ids", {kLength}, DType::kInt64).as(DType::kInt32),
                      fixed_len("attention_mask", {kLength}, DType::kInt64)})
      .shuffle(options.shuffle, {.seed = options.seed})
      .repeat()
      .batch(options.batch, {.drop_remainder = true})
      .mask_tokens({.vocab_size = 25000, .mask_token = 4, .special_tokens = {0, 1}, .seed = options.seed})
      .prefetch(2);
}

}  // namespace

std::span<const Workload> all_workloads() {
  static constexpr std::array kWorkloads = {
      Workload{"read", "interleave the shards, batch the raw records, for ever", read_workload},
      Workload{"mlm", "parse 512 ids and mask, shuffle, repeat, batch, mask tokens", mlm_workload},
  };
  return kWorkloads;
}

Dataset make_workload(const BenchOptions& options) {
  if (!options.pipeline.empty()) return PipelineDef::load(options.pipeline).dataset();
  std::string names;
  for (const Workload& workload : all_workloads()) {
    if (workload.name == options.workload) return workload.make(options);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", workload.name);
  }
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("no workload '{}'; there are: {}", options.workload, names));
}

}  // namespace millrace
