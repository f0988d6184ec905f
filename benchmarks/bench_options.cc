#include "benchmarks/bench_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "benchmarks/swept_option.h"
#include "benchmarks/workloads.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/damage_options.h"
#include "millrace/command_line/disk_cache_options.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/pipeline/plan/plan.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

// What --help says above the options.
std::string about() {
  std::string text = "Measures how fast a dataset delivers its batches.\n\nworkloads\n";
  size_t width = 0;
  for (const Workload& workload : all_workloads()) width = std::max(width, workload.name.size());
  for (const Workload& workload : all_workloads()) {
    text += fmt::format("  {:<{}} {}\n", workload.name, width, workload.what);
  }
  text += "\nrewrites (--no-rewrite)\n";
  for (const Rewrite& rewrite : all_rewrites()) text += fmt::format("  {:<12} {}\n", rewrite.name, rewrite.what);
  text.pop_back();
  return text;
}

// Options that would be without effect.
void refuse_together(const po::variables_map& given, std::string_view option,
                     std::initializer_list<const char*> others) {
  refuse_given(given, others, fmt::format("has no effect with {}", option));
}

// Whether it is no name of a workload but TFRecord files, which also end in .tfrec, or a folder, which is refused as
// one.
bool is_pattern(std::string_view text) {
  if (text.find_first_of("*?[/") != std::string_view::npos || text.find(".tfrec") != std::string_view::npos)
    return true;
  std::error_code code;  // a name that is too long is no file
  return !std::ranges::any_of(all_workloads(), [&](const Workload& workload) { return workload.name == text; }) &&
         std::filesystem::exists(text, code);
}

// Options that the workload has a say in.
void read_workload_options(const po::variables_map& given, BenchOptions& options) {
  const Workload& workload = find_workload(options.workload);
  const Workload::Defaults& defaults = workload.defaults;
  const std::string with = fmt::format("the workload {}", workload.name);
  const auto fill = [&](const char* option, const std::optional<int64_t>& by_default, int64_t& value) {
    if (!by_default) refuse_together(given, with, {option});
    if (!given.contains(option)) value = by_default.value_or(1);
  };
  fill("batch", defaults.batch, options.batch);
  fill("shuffle", defaults.shuffle, options.shuffle);
  options.shuffle_was_given = given.contains("shuffle");
  fill("cycle-length", defaults.cycle_length, options.cycle_length);
  if (!defaults.takes_seed) refuse_together(given, with, {"seed"});
  if (!defaults.takes_cache) refuse_together(given, with, {"cache"});
  options.cache = given.contains("cache");
  if (!defaults.takes_shards) {
    refuse_together(given, with,
                    {"shards", "block-length", "chunk-bytes", "read-ahead", "unordered", "damage",
                     "max-skipped-records", "max-skipped-bytes", "max-skipped-share"});
  } else if (options.shards.empty()) {
    refuse("--shards is missing; see dataset_bench --help");
  }
}

void read_check_options(const po::variables_map& given, int64_t max_distinct_shapes,
                        const std::vector<std::string>& max_padding, BenchOptions& options) {
  if (given.contains("max-distinct-shapes")) {
    options.max_distinct_shapes = max_distinct_shapes;
  }
  for (const std::string& text : max_padding) {
    const size_t equals = text.rfind('=');
    double share = -1;
    if (equals != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, share);
      if (error != std::errc() || stop != end) share = -1;
    }
    if (!(share >= 0 && share <= 1)) refuse(fmt::format("--max-padding is '{}', must be FEATURE=SHARE, 0 to 1", text));
    options.max_padding[text.substr(0, equals)] = share;
  }
  options.fixed_shapes = given.contains("require-fixed-shapes");
  options.known_cardinality = given.contains("require-known-cardinality");
}

}  // namespace

std::optional<BenchOptions> parse_bench_options(int argc, char** argv) {
  BenchOptions options;
  int64_t batches = 0;
  int64_t max_distinct_shapes = 0;
  std::vector<std::string> max_padding;
  auto seed = static_cast<int64_t>(options.seed);
  std::vector<std::string> sweep;
  po::options_description data("what is measured");
  // clang-format off
  data.add_options()
      ("shards", po::value(&options.shards), "TFRecord files: a glob such as 'data/train-*.tfrecord'")
      ("pipeline", po::value(&options.pipeline),
       "measure the pipeline of this definition, in the place of a workload: JSON in a file *.json, else protobuf's text")
      ("batch", whole_number(&options.batch, {1, limits::kRows}), "rows in a batch; the default is the workload's")
      ("shuffle", whole_number(&options.shuffle, {1, limits::kRows}),
       "rows in the shuffle buffer; the default is the workload's, of a GLOB no more than take 1 GiB")
      ("cycle-length", whole_number(&options.cycle_length, {1, limits::kCount}),
       "shards read in turn; the default is the workload's")
      ("block-length", whole_number(options.block_length, {1, limits::kRows}),
       "records that a shard gives in its turn")
      ("chunk-bytes", whole_number(options.chunk_bytes, {16384, 1 << 30}),
       "bytes that are asked of the storage at a time, from 16384 to 2^30; of plain shards in the page cache at most "
       "131072 to 262144, a quarter of a core's L2 cache; changes speed only")
      ("read-ahead", whole_number(options.read_ahead, {0, 1024}),
       "such chunks of each open shard that are read before they are needed, where the storage does not answer at once")
      ("prefetch", whole_number(options.prefetch, {1, limits::kFew}), "blocks ready before they are asked for")
      ("cache", "keep the parsed rows in memory (quest)")
      ("seed", whole_number(seed, {0, limits::kAny}), "of every random choice")
      ("unordered", "elements come as they are ready; the stream then depends on timing")
      ("no-rewrite", po::value(&options.disabled_rewrites)->composing(), "switch a rewrite of the plan off; may be repeated")
      ("save-pipeline", po::value(&options.save_pipeline),
       "write the definition of the pipeline to this file, to be edited and given to --pipeline, and stop")
      ("save", po::value(&options.save),
       "write the elements to this folder, for Dataset::load, and stop; with --batches only the first ones")
      ("overwrite", "with --save: replace the elements that are in the folder");
  add_damage_options(data);
  data.add_options()
      ("skipped-log", po::value(&options.skipped_log),
       "with --damage skip: append a line of JSON for each part of a shard that is left out to this file; "
       "made anew without --resume");
  po::options_description run("how it is run");
  run.add_options()
      ("threads", whole_number(options.threads, {0, limits::kThreads}), "workers; 0: one for each core")
      ("seconds", real_number(options.seconds, {0.001, limits::kSeconds}), "length of a timed run")
      ("warmup-seconds", real_number(options.warmup_seconds, {0, limits::kSeconds}),
       "time between the first batch and the measurement")
      ("batches", whole_number(&batches, {1, limits::kCount}),
       "stop after so many batches, counted from the start of the stream, and compute stream_hash over them")
      ("rounds", whole_number(options.rounds, {1, limits::kFew}),
       "runs, each from the beginning; the result is the median one, their spread the noise of --compare; "
       "3 with --floor and --sweep")
      ("consumer-us", whole_number(options.consumer_us, {0, limits::kCount}),
       "microseconds that the consumer spends on a batch")
      ("memory-mb", whole_number(options.memory_mb, {0, limits::kMemoryMb}),
       "MiB for everything between the files and the consumer; 0: half of the machine's memory")
      ("watchdog", real_number(options.watchdog, {0, limits::kSeconds}),
       "when nothing has moved for so many seconds while a batch or a shard is waited for, say what is waited for and exit with 75; "
       "0: wait forever")
      ("no-statistics", "without the counters of stages, to see what they cost; then no watchdog either");
  add_disk_cache_options(run);
  po::options_description results("what comes out of it");
  results.add_options()
      ("json", "one JSON object instead of a table")
      ("html", po::value(&options.html), "write a page about the run to this file: stages, rates, queues, latencies")
      ("trace", po::value(&options.trace),
       "write what happened when to this file, for ui.perfetto.dev or chrome://tracing; the last moments of a long run")
      ("no-display", "no picture of the running pipeline on the terminal")
      ("hash-log", po::value(&options.hash_log),
       "append a line `ordinal hash` for each batch to this file; made anew without --resume");
  po::options_description comparing("comparisons");
  comparing.add_options()
      ("floor", "compare with plain loops that do the unavoidable work of the workload, in turn; says how many times as "
       "long the engine takes")
      ("sweep", po::value(&sweep)->composing(),
       "KEY=A,B,C: run with each of these values; may be repeated, for every combination. Keys, or what one begins with: threads, batch, shuffle, "
       "cycle-length, block-length, chunk-bytes, read-ahead, prefetch, memory-mb, consumer-us, seed")
      ("compare", po::value(&options.compare)->multitoken(),
       "A.json B.json: compare two results of --json; exits with 1 where the second is slower than --max-slowdown")
      ("max-slowdown", real_number(options.max_slowdown, {1e-6, 1e6}),
       "with --compare: how many times as long a record may take");
  po::options_description looking_at("looking instead of measuring");
  looking_at.add_options()
      ("print", whole_number(&options.print, {1, limits::kCount}), "print the first N elements and stop")
      ("explain", "print the plan as written and as it runs, and stop")
      ("explain-dot", "print the plan as written as a graph for Graphviz's dot, and stop")
      ("check", "read the first elements, say what they are like, and stop; exits with 1 where something asked for is not so")
      ("check-elements", whole_number(options.check_elements, {0, limits::kCount}),
       "with --check: how many elements are read; 0: all")
      ("max-distinct-shapes", whole_number(&max_distinct_shapes, {1, limits::kCount}),
       "with --check: most different shapes of elements")
      ("max-padding", po::value(&max_padding)->composing(),
       "with --check: FEATURE=SHARE, the largest share of padding in a feature, 0 to 1; may be repeated")
      ("require-fixed-shapes", "with --check: every shape is known before the data is read")
      ("require-known-cardinality", "with --check: the number of elements is known before they are read");
  po::options_description states("going on where a run ended");
  states.add_options()
      ("state", po::value(&options.state), "write the place in the stream to this file while running, atomically")
      ("state-every", whole_number(options.state_every, {1, limits::kCount}), "batches between two states")
      ("resume", po::value(&options.resume), "go on from the state in this file");
  // clang-format on
  po::options_description visible("");
  visible.add(data).add(run).add(results).add(comparing).add(looking_at).add(states);
  po::options_description positional;
  positional.add_options()("workload", po::value(&options.workload));
  const auto given =
      parse_command_line(argc, argv,
                         {.name = "dataset_bench",
                          .about = about(),
                          .usage = "GLOB [options] | WORKLOAD --shards GLOB [options] | --pipeline FILE [options] | "
                                   "--compare A.json B.json"},
                         visible, {"workload"}, positional);
  if (!given) return std::nullopt;
  options.json = given->contains("json");
  if (given->contains("compare")) {
    if (options.compare.size() != 2)
      refuse(fmt::format("--compare needs two files with results, not {}", options.compare.size()));
    for (const auto& [option, value] : *given) {
      if (value.defaulted() || option == "compare" || option == "max-slowdown" || option == "json") continue;
      refuse(option == "workload" ? "a workload has no effect with --compare"
                                  : fmt::format("--{} has no effect with --compare", option));
    }
    return options;
  }
  refuse_together(*given, "a run without --compare", {"max-slowdown"});
  if (is_pattern(options.workload)) {
    if (!options.shards.empty()) refuse(fmt::format("{} and --shards are two data sets; give one", options.workload));
    options.shards = std::exchange(options.workload, "examples");
  }
  if (!options.pipeline.empty()) {
    if (!options.workload.empty()) {
      refuse(fmt::format("the workload {} and --pipeline are two pipelines; give one", options.workload));
    }
    refuse_together(
        *given, "--pipeline, which says it",
        {"shards", "batch", "shuffle", "cycle-length", "block-length", "chunk-bytes", "read-ahead", "prefetch", "cache",
         "seed", "unordered", "damage", "max-skipped-records", "max-skipped-bytes", "max-skipped-share"});
    options.workload = options.pipeline;
  } else {
    if (options.workload.empty() && !options.shards.empty()) {
      refuse("--shards needs a workload, as in `dataset_bench mlm --shards FILES`; `dataset_bench FILES` needs none");
    }
    if (options.workload.empty())
      refuse(
          "nothing to measure: TFRecord files such as 'data/*.tfrecord', a workload or --pipeline; see dataset_bench "
          "--help");
    read_workload_options(*given, options);
  }
  options.seed = static_cast<uint64_t>(seed);
  if (given->contains("batches")) {
    options.batches = batches;
    refuse_together(*given, "--batches", {"seconds", "warmup-seconds"});
  }
  const std::initializer_list<const char*> measuring = {
      "batches",  "seconds",     "warmup-seconds", "consumer-us", "json",  "state",     "state-every",
      "hash-log", "skipped-log", "rounds",         "html",        "trace", "no-display"};
  if (given->contains("print")) {
    refuse_together(*given, "--print", measuring);
  }
  options.check = given->contains("check");
  if (options.check) {
    refuse_together(*given, "--check",
                    {"batches", "seconds", "warmup-seconds", "consumer-us", "state", "state-every", "hash-log",
                     "skipped-log", "print", "resume", "rounds", "html", "trace", "no-display"});
    read_check_options(*given, max_distinct_shapes, max_padding, options);
  } else {
    refuse_given(
        *given,
        {"check-elements", "max-distinct-shapes", "max-padding", "require-fixed-shapes", "require-known-cardinality"},
        "has no effect without --check");
  }
  options.overwrite = given->contains("overwrite");
  if (!options.save.empty()) {
    refuse_together(*given, "--save",
                    {"seconds", "warmup-seconds", "consumer-us", "state", "state-every", "hash-log", "skipped-log",
                     "print", "resume", "explain", "explain-dot", "save-pipeline", "check", "floor", "sweep", "rounds",
                     "html", "trace", "no-display"});
  } else if (options.overwrite) {
    refuse("--overwrite has no effect without --save");
  }
  options.floor = given->contains("floor");
  if (options.floor) {
    refuse_together(*given, "--floor",
                    {"pipeline",
                     "batches",
                     "consumer-us",
                     "state",
                     "state-every",
                     "hash-log",
                     "skipped-log",
                     "print",
                     "resume",
                     "unordered",
                     "damage",
                     "max-skipped-records",
                     "max-skipped-bytes",
                     "max-skipped-share",
                     "explain",
                     "explain-dot",
                     "save-pipeline",
                     "check",
                     "sweep",
                     "html",
                     "trace"});
  }
  for (const std::string& text : sweep) {
    SweptOption swept = parse_swept_option(text, options);
    const auto same = [&](const SweptOption& before) { return before.key == swept.key; };
    if (std::ranges::any_of(options.sweep, same)) refuse(fmt::format("--sweep {} is there twice", swept.key));
    options.sweep.push_back(std::move(swept));
  }
  if (!sweep.empty()) {
    refuse_together(*given, "--sweep",
                    {"state", "state-every", "hash-log", "skipped-log", "print", "resume", "explain", "explain-dot",
                     "save-pipeline", "check", "html", "trace"});
  }
  if ((options.floor || !sweep.empty()) && (*given)["rounds"].defaulted()) options.rounds = 3;
  if (options.rounds > 1) {
    refuse_together(*given, "--rounds above 1", {"state", "resume", "hash-log", "skipped-log", "trace"});
  }
  options.display = !given->contains("no-display");
  options.statistics = !given->contains("no-statistics");
  if (!options.statistics) {
    refuse_together(*given, "--no-statistics", {"watchdog", "html", "print", "check"});
    options.watchdog = 0;
  }
  const std::initializer_list<const char*> looking = {"explain", "explain-dot", "save-pipeline", "check"};
  for (const char* option : looking) {
    if (!given->contains(option)) continue;
    if (std::string_view(option) != "check") {
      refuse_together(*given, fmt::format("--{}", option), measuring);
      refuse_together(*given, fmt::format("--{}", option), {"print", "resume", "watchdog"});
    }
    // These show the pipeline as it was written: nothing of how it runs.
    if (std::string_view(option) == "explain-dot" || std::string_view(option) == "save-pipeline") {
      refuse_together(*given, fmt::format("--{}", option),
                      {"threads", "memory-mb", "no-rewrite", "no-statistics", "cache-dir", "cache-bytes"});
    }
    for (const char* other : looking) {
      if (other != option) refuse_together(*given, fmt::format("--{}", option), {other});
    }
  }
  if (options.state.empty() && !(*given)["state-every"].defaulted())
    refuse("--state-every has no effect without --state");
  if (given->contains("unordered") && (given->contains("state") || given->contains("resume"))) {
    refuse("a stream without an order (--unordered) has no place that --state or --resume could name");
  }
  options.damage = damage_policy(*given);
  options.disk_cache = disk_cache_options(*given);
  if (!options.skipped_log.empty() && options.pipeline.empty() && options.damage.action == DamagePolicy::kFail) {
    refuse("--skipped-log has no effect without --damage skip");
  }
  options.ordered = !given->contains("unordered");
  options.explain = given->contains("explain");
  options.explain_dot = given->contains("explain-dot");
  return options;
}

}  // namespace millrace
