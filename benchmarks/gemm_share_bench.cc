// How much of the machine's rate of matrix products a training step keeps: steps of a RoBERTa on random rows, and the
// products of such a step alone, of the same shapes, on the same threads, in turns. One JSON object on standard output.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <iostream>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "millrace/trainer/models/config_limits.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/optimizers/adam.h"
#include "millrace/trainer/step/step_graph.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/gemm.h"

namespace millrace {
namespace {

namespace po = boost::program_options;
using Clock = std::chrono::steady_clock;

struct Options {
  int64_t layers = 4;
  int64_t hidden = 256;
  int64_t vocab_size = 10048;
  int64_t max_length = 128;
  int64_t global_batch = 128;
  int replicas = 8;
  int threads = 0;
  int rounds = 3;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  const auto add = [&](const char* name, auto& value, WholeNumberLimits limits, const char* text) {
    visible.add_options()(name, whole_number(value, limits), text);
  };
  add("layers", options.layers, {1, kMostLayers}, "encoder layers");
  add("hidden", options.hidden, {1, kMostSize / 4},
      "width; a head has 64, the feed-forward layers are 4 times as wide");
  add("vocab-size", options.vocab_size, {6, kMostSize}, "entries of the vocabulary");
  add("max-length", options.max_length, {1, kMostSize / 2}, "tokens in a row");
  add("global-batch", options.global_batch, {1, kMostSize}, "rows of a batch");
  add("replicas", options.replicas, {1, kMostReplicas}, "parts of a batch");
  add("threads", options.threads, {0, limits::kThreads}, "0: one for each core");
  add("rounds", options.rounds, {1, limits::kFew},
      "steps that are timed, each with its products alone after it; the median counts");
  if (!parse_command_line(argc, argv,
                          {.name = "gemm_share_bench",
                           .about = "Times training steps, and their matrix products alone on the same threads.",
                           .usage = "[options]"},
                          visible)) {
    return std::nullopt;
  }
  if (options.global_batch < options.replicas) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("--global-batch is {}, must be at least --replicas, which is {}",
                                     options.global_batch, options.replicas));
  }
  return options;
}

// A product and how often a replica has it in a step.
struct Shape {
  bool transposed_a, transposed_b;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int64_t times;

  double flops() const { return 2.0 * static_cast<double>(m * n * k) * static_cast<double>(times); }
};

// Forward, gradient of the weight, gradient of the input.
void add_linear(std::vector<Shape>& shapes, int64_t rows, int64_t in, int64_t out, int64_t times) {
  if (times == 0) return;
  shapes.push_back({false, true, rows, out, in, in, in, out, times});
  shapes.push_back({true, false, out, in, rows, out, in, in, times});
  shapes.push_back({false, false, rows, in, out, out, in, in, times});
}

std::vector<Shape> shapes_of(const Options& o, int64_t labels) {
  std::vector<Shape> shapes;
  const int64_t batch_rows = o.global_batch / o.replicas;
  const int64_t rows = batch_rows * o.max_length;
  const int64_t heads = std::max<int64_t>(1, o.hidden / 64);
  const int64_t width = o.hidden / heads;
  const int64_t length = o.max_length;
  add_linear(shapes, rows, o.hidden, o.hidden, 4 * o.layers - 1);
  add_linear(shapes, rows, o.hidden, 4 * o.hidden, o.layers - 1);
  add_linear(shapes, rows, 4 * o.hidden, o.hidden, o.layers - 1);
  // The last layer, after its attention.
  add_linear(shapes, labels, o.hidden, o.hidden, 1);
  add_linear(shapes, labels, o.hidden, 4 * o.hidden, 1);
  add_linear(shapes, labels, 4 * o.hidden, o.hidden, 1);
  const int64_t tiles = batch_rows * heads * o.layers;
  shapes.push_back({false, true, length, length, width, o.hidden, o.hidden, length, 2 * tiles});
  shapes.push_back({false, false, length, width, length, length, o.hidden, o.hidden, 2 * tiles});
  shapes.push_back({true, false, length, width, length, length, o.hidden, o.hidden, 2 * tiles});
  add_linear(shapes, labels, o.hidden, o.hidden, 1);
  add_linear(shapes, labels, o.hidden, o.vocab_size, 1);
  return shapes;
}

// The products of one step: each thread takes its share of the replicas.
double seconds_of_products(const std::vector<Shape>& shapes, const Options& options, int threads) {
  int64_t values = 0;
  for (const Shape& s : shapes) {
    values =
        std::max({values, (s.transposed_a ? s.k : s.m) * s.lda, (s.transposed_b ? s.n : s.k) * s.ldb, s.m * s.ldc});
  }
  std::vector<std::vector<float>> memory(static_cast<size_t>(3 * threads),
                                         std::vector<float>(static_cast<size_t>(values), 1e-3F));
  const auto products = [&](size_t thread, bool once) {
    for (const Shape& s : shapes) {
      for (int64_t i = 0; i < (once ? 1 : s.times); ++i) {
        gemm<float>(s.transposed_a ? Transposed::kYes : Transposed::kNo,
                    s.transposed_b ? Transposed::kYes : Transposed::kNo, s.m, s.n, s.k, 1, memory[3 * thread].data(),
                    s.lda, memory[3 * thread + 1].data(), s.ldb, 0, memory[3 * thread + 2].data(), s.ldc);
      }
    }
  };
  std::atomic<int> next = 0;
  std::barrier warm(threads + 1);  // a new thread asks the system for memory first
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      products(static_cast<size_t>(thread), true);
      warm.arrive_and_wait();
      while (next++ < options.replicas) products(static_cast<size_t>(thread), false);
    });
  }
  warm.arrive_and_wait();
  const Clock::time_point begin = Clock::now();
  workers.clear();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const int threads = checked_threads(options->threads);
  const WorkerLimit limit(threads);
  const RobertaForMaskedLm model({.vocab_size = options->vocab_size,
                                  .hidden_size = options->hidden,
                                  .num_hidden_layers = options->layers,
                                  .num_attention_heads = std::max<int64_t>(1, options->hidden / 64),
                                  .intermediate_size = 4 * options->hidden,
                                  .max_position_embeddings = options->max_length + 4,
                                  .pad_token_id = 3});
  const Adam optimizer(model.layout(), adam_weight_decay(1e-3));
  TrainedState state(model.layout(), optimizer);
  model.initialize(state.weights.span(), 1);
  StepGraph graph(model, optimizer, state, {.replicas = options->replicas, .threads = threads});

  const CounterRng rng(1, operator_id("gemm_share_bench"));
  std::vector<int32_t> ids(static_cast<size_t>(options->global_batch * options->max_length));
  std::vector<int32_t> labels(ids.size(), kNoLabel);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = 5 + static_cast<int32_t>(uniform_below(rng.words(i)[0], static_cast<uint32_t>(options->vocab_size - 5)));
    if (i % 20 < 3) labels[i] = ids[i];  // 15%
  }
  const std::vector<int64_t> shape = {options->global_batch, options->max_length};
  const BatchView batch(
      {{"input_ids", std::span<const int32_t>(ids), shape}, {"labels", std::span<const int32_t>(labels), shape}});
  const auto num_labels = std::ssize(labels) - std::count(labels.begin(), labels.end(), kNoLabel);
  const std::vector<Shape> shapes = shapes_of(*options, num_labels / options->replicas);

  std::vector<double> steps;
  std::vector<double> products;
  for (int round = 0; round <= options->rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    (void)graph.train(batch, {round, round, round + 1}, 1e-4);
    const double step = std::chrono::duration<double>(Clock::now() - begin).count();
    const double alone = seconds_of_products(shapes, *options, threads);
    if (round == 0) continue;  // memory and kernels of the first are new
    steps.push_back(step);
    products.push_back(alone);
  }
  double flops = 0;
  for (const Shape& s : shapes) flops += s.flops() * options->replicas;
  std::vector<double> shares;
  for (size_t i = 0; i < steps.size(); ++i) shares.push_back(products[i] / steps[i]);
  nlohmann::ordered_json rates = nlohmann::ordered_json::array();
  for (const Shape& s : shapes) {
    const double seconds = seconds_of_products({s}, *options, threads);
    rates.push_back({{"product", fmt::format("{} {}", s.transposed_a ? "A^T" : "A", s.transposed_b ? "B^T" : "B")},
                     {"m", s.m},
                     {"n", s.n},
                     {"k", s.k},
                     {"gflop_per_s", s.flops() * options->replicas * 1e-9 / seconds}});
  }
  const nlohmann::ordered_json json = {{"gemm", gemm_backend()},
                                       {"threads", threads},
                                       {"gflop_per_step", flops * 1e-9},
                                       {"step_seconds", median(steps)},
                                       {"tokens_per_s", static_cast<double>(ids.size()) / median(steps)},
                                       {"products_seconds", median(products)},
                                       {"step_gflop_per_s", flops * 1e-9 / median(steps)},
                                       {"products_gflop_per_s", flops * 1e-9 / median(products)},
                                       {"share_of_the_products_rate", median(shares)},
                                       {"rates", rates}};
  std::cout << json.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("gemm_share_bench", [&] { return millrace::run(argc, argv); });
}
