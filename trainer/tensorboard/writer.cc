#include "millrace/trainer/tensorboard/writer.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/folder_names.h"
#include "trainer/tensorboard/event.pb.h"

namespace millrace {
namespace {

constexpr int kHistogramBuckets = 30;
constexpr int64_t kMostSeconds = 9'999'999'998;  // of ten digits, with one more to come

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// The seconds in the names of the folder's event files, the most of them, or -1.
int64_t latest_in(const std::string& folder) {
  int64_t latest = -1;
  std::error_code end;  // a folder that cannot be listed is left to the clock
  for (const std::string& name : names_in(folder, end)) {
    if (!name.starts_with(kPrefix)) continue;
    int64_t seconds = -1;
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
    // Others have as many digits, or their names are in no order of time.
    if (error == std::errc() && seconds <= kMostSeconds) latest = std::max(latest, seconds);
  }
  return latest;
}

// Readers take the files of a folder in the order of their names, and a run that goes on comes after the one before
// also where it starts within the same second, or the clock was set back.
std::string file_in(const std::string& folder) {
  static std::atomic<int> number{0};
  make_folder(folder);
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  const int64_t seconds = std::max(static_cast<int64_t>(wall_seconds()), latest_in(folder) + 1);
  return (std::filesystem::path(folder) /
          fmt::format("{}{:010}.{}.{}.{}", kPrefix, seconds, host, ::getpid(), number++))
      .string();
}

tensorboard::Event event_at(int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  return event;
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::string& folder, int64_t step)
    : writer_(file_in(folder), {.in_place = true}) {
  tensorboard::Event event = event_at(0);
  event.set_file_version("brain.Event:2");
  writer_.write(event.SerializeAsString());
  event = event_at(step + 1);  // of this step and later ones nothing that was there before counts
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  writer_.write(event.SerializeAsString());
  flush();
}

void TensorboardWriter::scalar(int64_t step, const std::string& tag, double value) {
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& summary = *event.mutable_summary()->add_value();
  summary.set_tag(tag);
  summary.set_simple_value(static_cast<float>(value));
  writer_.write(event.SerializeAsString());
}

void TensorboardWriter::histogram(int64_t step, const std::string& tag, std::span<const float> values) {
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& summary = *event.mutable_summary()->add_value();
  summary.set_tag(tag);
  tensorboard::Histogram& histogram = *summary.mutable_histogram();
  double least = INFINITY;
  double most = -INFINITY;
  double number = 0;
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min<double>(least, value);
    most = std::max<double>(most, value);
    number += 1;
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  if (number == 0) return;
  // Values that are all equal get a part of their own in the middle.
  const double width = most > least ? (most - least) / kHistogramBuckets : 1;
  const double begin = most > least ? least : least - width * kHistogramBuckets / 2;
  std::vector<double> counts(kHistogramBuckets);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const auto bucket = static_cast<int>((value - begin) / width);
    ++counts[static_cast<size_t>(std::clamp(bucket, 0, kHistogramBuckets - 1))];
  }
  histogram.set_min(least);
  histogram.set_max(most);
  histogram.set_num(number);
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (int bucket = 0; bucket < kHistogramBuckets; ++bucket) {
    histogram.add_bucket_limit(begin + width * (bucket + 1));
    histogram.add_bucket(counts[static_cast<size_t>(bucket)]);
  }
  writer_.write(event.SerializeAsString());
}

}  // namespace millrace
