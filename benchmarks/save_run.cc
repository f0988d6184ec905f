#include "benchmarks/save_run.h"

#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/bench_run.h"
#include "millrace/command_line/terminal_line.h"

namespace millrace {

void run_save(const Dataset& dataset, const BenchOptions& options) {
  const Dataset part = options.batches ? dataset.take(*options.batches) : dataset;
  const Cardinality count = part.cardinality();
  SaveReport report;
  {
    TerminalLine line;
    report = part.save(
        options.save,
        {.overwrite = options.overwrite, .start = start_options(options), .on_progress = [&](int64_t elements) {
           if (!line.due()) return;
           line.show(count.is_known() ? fmt::format("{} of {} elements", elements, count.count())
                                      : fmt::format("{} elements", elements));
         }});
  }
  if (options.json) {
    std::cout << nlohmann::json{{"directory", options.save},
                                {"elements", report.elements},
                                {"bytes", report.bytes},
                                {"seconds", report.seconds},
                                {"skipped",
                                 {{"regions", report.skipped.regions},
                                  {"records", report.skipped.records},
                                  {"bytes", report.skipped.bytes}}}}
                     .dump()
              << "\n";
    return;
  }
  const double mb = 1e-6 * static_cast<double>(report.bytes);
  std::cout << fmt::format("saved {} elements to {}: {:.1f} MB in {:.2f} s, {:.1f} MB/s{}\n", report.elements,
                           options.save, mb, report.seconds, mb / report.seconds,
                           report.skipped.regions == 0 ? "" : "; left out: " + report.skipped.to_string());
}

}  // namespace millrace
