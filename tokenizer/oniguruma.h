#pragma once

#include <oniguruma.h>

namespace millrace {

/// The functions of Oniguruma, loaded when first asked for. It is not linked: its shared library exports a regcomp and
/// a regexec of its own, which would take the place of the C library's in every program that uses a tokenizer.
struct Oniguruma {
  /// Throws `kIo` when the library (`libonig.so.5`) is not there. Any thread.
  static const Oniguruma& loaded();

  decltype(&::onig_new) make = nullptr;
  decltype(&::onig_free) free = nullptr;
  decltype(&::onig_search_with_param) search = nullptr;
  decltype(&::onig_region_new) make_region = nullptr;
  decltype(&::onig_region_free) free_region = nullptr;
  decltype(&::onig_new_match_param) make_limits = nullptr;
  decltype(&::onig_free_match_param) free_limits = nullptr;
  decltype(&::onig_initialize_match_param) initialize_limits = nullptr;
  decltype(&::onig_set_retry_limit_in_search_of_match_param) limit_retries = nullptr;
  decltype(&::onig_set_match_stack_limit_size_of_match_param) limit_stack = nullptr;
  decltype(&::onig_error_code_to_str) describe_error = nullptr;
  OnigEncodingType* utf8 = nullptr;
  OnigSyntaxType* ruby_syntax = nullptr;

 private:
  Oniguruma();
};

}  // namespace millrace
