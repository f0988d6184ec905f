#pragma once

#include <nlohmann/json.hpp>

#include "millrace/trainer/callback.h"

namespace millrace {

/// Where the seconds of a stretch of steps went, by name: what logs and summaries have in common.
inline nlohmann::ordered_json time_to_json(const TrainingReport& report) {
  return {{"input", report.seconds * report.input_wait_share},
          {"forward", report.phases.forward},
          {"backward", report.phases.backward},
          {"reduce", report.phases.reduce},
          {"optimizer", report.phases.optimizer},
          {"callbacks", report.callback_seconds}};
}

}  // namespace millrace
