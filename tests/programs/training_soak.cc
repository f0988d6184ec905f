// Trains for a long time and watches: memory must stay, the loss must fall, steps must keep coming. See --help.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace {

namespace po = boost::program_options;
using namespace millrace;
using Clock = std::chrono::steady_clock;

// The loss of fewer reports may not have fallen yet, and a line through fewer samples of the memory in use says little.
constexpr size_t kFewestReports = 50;
constexpr size_t kFewestSamples = 10;
// By which the loss falls: by one or two it falls for a learning rate of 1e-9 too, now and then.
constexpr double kFewestStandardErrors = 5;
constexpr double kMostMinutesToFirstReport = 10;

struct SoakOptions {
  double minutes = 45;
  double most_growth = 1;
  double longest_gap = 60;
  std::string train_mlm;
  std::string prepare;
  int64_t rows = 50000;  // epochs of minutes: the memory in use is at its largest where one ends and the next begins
  int64_t max_length = 128;
  std::vector<std::string> training;
};

double minutes_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::ratio<60>>(Clock::now() - begin).count();
}

// Of a running process, in MiB; nothing when it has ended.
std::optional<double> resident_mib(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  return std::nullopt;
}

struct Sample {
  double minute = 0;
  double mib = 0;
};

// Of the line through the samples with the least squares, MiB a minute.
double growth(const std::vector<Sample>& samples) {
  double n = 0;
  double x = 0;
  double y = 0;
  for (const Sample& sample : samples) {
    n += 1;
    x += sample.minute;
    y += sample.mib;
  }
  double xx = 0;
  double xy = 0;
  for (const Sample& sample : samples) {
    xx += (sample.minute - x / n) * (sample.minute - x / n);
    xy += (sample.minute - x / n) * (sample.mib - y / n);
  }
  return xx == 0 ? 0 : xy / xx;
}

std::vector<double> reported_losses(const std::string& log) {
  std::vector<double> losses;
  std::ifstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    const nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (event.is_object() && event.value("event", "") == "report") losses.push_back(event.at("loss").get<double>());
  }
  return losses;
}

struct Mean {
  double value = 0;
  double variance = 0;  // of the mean
};

// The variance is that of the differences from one value to the next, halved: what falls along a curve is no noise (von
// Neumann et al., "The Mean Square Successive Difference", 1941).
Mean mean(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double squares = 0;
  for (size_t i = 1; i < values.size(); ++i) squares += (values[i] - values[i - 1]) * (values[i] - values[i - 1]);
  return {.value = std::accumulate(values.begin(), values.end(), 0.0) / n, .variance = squares / 2 / (n - 1) / n};
}

std::optional<SoakOptions> parse(int argc, char** argv) {
  SoakOptions options;
  po::options_description described("options");
  described.add_options()("minutes", real_number(options.minutes, {0, 1e6}),
                          "of training from its first report on, or more until there are 50 reports and 10 samples of "
                          "memory, which is judged over the last two thirds; the first report may take 10 minutes")(
      "most-growth", real_number(options.most_growth, {0, 1e6}), "MiB a minute that the process may grow by")(
      "longest-gap", real_number(options.longest_gap, {0, limits::kSeconds}),
      "seconds between two reports that are no stall")("rows", whole_number(options.rows, {1, limits::kRows}),
                                                       "lines of the text that is trained on")(
      "max-length", whole_number(options.max_length, {2, limits::kFew}), "tokens in a row")(
      "train-mlm", po::value(&options.train_mlm)->required(), "the program train_mlm")(
      "prepare", po::value(&options.prepare)->required(), "the program prepare_tfrecord_shards")(
      "training", po::value(&options.training)->multitoken()->zero_tokens(),
      "last: further options of train_mlm, without the leading --, as NAME=VALUE");
  const auto given = parse_command_line(argc, argv,
                                        {.name = "training_soak",
                                         .about = "Trains the default model of train_mlm, with evaluations and "
                                                  "checkpoints, and fails when memory grows, the\n"
                                                  "loss does not fall by more than chance, or steps stop coming.",
                                         .usage = "--train-mlm PROGRAM --prepare PROGRAM [options]"},
                                        described);
  if (!given) return std::nullopt;
  return options;
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const test::TemporaryFolder folder;
  test::write_file(folder.path("tokenizer.json"), test::letter_tokenizer_json());
  std::string text;
  for (const std::string& row : test::numbered_rows(static_cast<int>(options->rows))) text += row + "\n";
  test::write_file(folder.path("text.txt"), text);
  const test::ChildResult prepared =
      test::run_child({options->prepare, "--tokenizer", folder.path("tokenizer.json"), "--out", folder.path("shards"),
                       "--text", folder.path("text.txt"), "--max-length", std::to_string(options->max_length)});
  if (prepared.exit_code != 0) {
    std::cerr << prepared.err;
    return 1;
  }
  std::map<std::string, std::string> arguments = {{"out", folder.path("run")},
                                                  {"shards", folder.path("shards")},
                                                  {"tokenizer", folder.path("tokenizer.json")},
                                                  {"vocab-size", "10048"},
                                                  {"max-length", std::to_string(options->max_length)},
                                                  {"steps", "1000000000"},
                                                  {"checkpoint-every", "100"},
                                                  {"evaluate-every", "200"},
                                                  {"report-every", "5"},
                                                  {"keep-best", "2"}};
  for (const std::string& option : options->training) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      std::cerr << "training_soak: '" << option << "' is not NAME=VALUE\n";
      return 2;
    }
    arguments[option.substr(0, equals)] = option.substr(equals + 1);
  }
  std::vector<std::string> command = {options->train_mlm};
  for (const auto& [name, value] : arguments) command.push_back("--" + name + "=" + value);

  const std::string log = folder.path("run/log.jsonl");
  const auto begin = Clock::now();
  test::ChildProcess training(command);
  std::vector<Sample> judged;
  size_t reports = 0;
  std::optional<Clock::time_point> first_report;  // until then the shuffle buffer fills
  auto reported_at = Clock::now();
  double longest_gap = 0;
  double next_line = 0;
  const auto goes_on = [&] {
    if (!first_report) return minutes_since(begin) < kMostMinutesToFirstReport;
    if (minutes_since(*first_report) < options->minutes) return true;
    return (reports < kFewestReports || judged.size() < kFewestSamples) && longest_gap < options->longest_gap;
  };
  while (training.running() && goes_on()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    training.take_output();
    const auto mib = resident_mib(training.pid());
    const size_t now = reported_losses(log).size();
    if (now > 0 && !first_report) first_report = Clock::now();
    if (now != reports || !first_report) {
      reports = now;
      reported_at = Clock::now();
    }
    if (mib && first_report && minutes_since(*first_report) >= options->minutes / 3) {
      judged.push_back({.minute = minutes_since(*first_report), .mib = *mib});
    }
    longest_gap = std::max(longest_gap, std::chrono::duration<double>(Clock::now() - reported_at).count());
    if (mib && minutes_since(begin) >= next_line) {
      next_line += std::max(0.1, options->minutes / 45);
      std::cerr << fmt::format("minute {:.1f}: {} reports, {:.1f} MiB\n", minutes_since(begin), reports, *mib);
    }
  }
  const bool ran = training.running();
  training.signal(SIGINT);
  const test::ChildResult result = training.wait();

  const std::vector<double> losses = reported_losses(log);
  int failed = 0;
  const auto judge = [&](bool holds, const std::string& what) {
    std::cout << fmt::format("{:<7}{}\n", holds ? "passed" : "FAILED", what);
    if (!holds) ++failed;
  };
  judge(ran && result.exit_code == 130,
        fmt::format("it trained to the end and stopped when asked to (exit code {}, signal {})", result.exit_code,
                    result.signal));
  const double slope = growth(judged);
  judge(judged.size() >= kFewestSamples && slope < options->most_growth,
        fmt::format("memory grew by {:.3f} MiB a minute over the last {:.1f} minutes; less than {} is wanted", slope,
                    judged.empty() ? 0 : judged.back().minute - judged.front().minute, options->most_growth));
  const size_t fifth = losses.size() / 5;
  if (losses.size() < kFewestReports) {
    judge(false, fmt::format("only {} reports; {} are wanted", losses.size(), kFewestReports));
  } else {
    const Mean first = mean(std::span(losses).first(fifth));
    const Mean last = mean(std::span(losses).last(fifth));
    const double error = std::sqrt(first.variance + last.variance);
    judge(
        last.value < first.value - kFewestStandardErrors * error,
        fmt::format("the loss fell from {:.4f} to {:.4f} (means of the first and the last fifth of {} reports), {:.1f} "
                    "standard errors of the difference; more than {} are wanted",
                    first.value, last.value, losses.size(), (first.value - last.value) / error, kFewestStandardErrors));
  }
  judge(longest_gap < options->longest_gap,
        fmt::format("the longest wait for a report was {:.1f} s; less than {} is wanted", longest_gap,
                    options->longest_gap));
  if (failed > 0) std::cerr << result.err;  // a watchdog may have said what was waited for
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("training_soak", [&] { return run(argc, argv); });
}
