#include "tests/ops/file_source_cases.h"

#include <sstream>

#include "millrace/pipeline/worker_limit.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

namespace {

std::vector<nlohmann::json> cases_in(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<nlohmann::json> cases;
  for (std::string line; std::getline(lines, line);) cases.push_back(nlohmann::json::parse(line));
  return cases;
}

}  // namespace

std::vector<nlohmann::json> file_source_cases(const std::string& name) {
  return cases_in(test::data_path("file_sources/") + name);
}

std::vector<nlohmann::json> operator_cases(const std::string& name) {
  return cases_in(test::data_path("operators/") + name);
}

std::string bytes_of(const nlohmann::json& text) {
  const auto utf8 = text.get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto unit = static_cast<unsigned char>(utf8[i]);
    // Above U+007F: two units.
    const bool two = unit >= 0x80;
    bytes += two ? static_cast<char>(((unit & 0x03) << 6) | (utf8[i + 1] & 0x3f)) : utf8[i];
    if (two) ++i;
  }
  return bytes;
}

TakenRecords take_records(const Dataset& dataset, const StartOptions& options) {
  const WorkerLimit workers(options.threads);
  TakenRecords taken;
  Pipeline pipeline = dataset.start(options);
  try {
    while (const std::optional<Batch> batch = pipeline.next()) {
      taken.records.emplace_back(batch->values<std::string_view>("record")[0]);
    }
  } catch (const ErrorException& e) {
    taken.error = e.what();
    taken.what = e.error();
  }
  return taken;
}

}  // namespace millrace::test
