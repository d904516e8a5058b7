// What is wrong ends the program with one clear sentence and the exit code of its kind: through the commands
// that a user types. (Every single check has its own test in tests/checkpoint and tests/text.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "e2e/program.h"

namespace seekline::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kUsage = 2, kNotFound = 3, kBadFile = 4, kUnsupported = 5, kLimit = 6, kIo = 7;

// A copy of the tiny V4.1 model that may be broken.
class BrokenModel {
 public:
  BrokenModel() {
    for (const auto& entry : fs::directory_iterator(golden_data("models/v41-tiny")))
      if (entry.path().filename() != "expected.safetensors")
        write_bytes(folder_ / entry.path().filename().string(), read_bytes(entry.path()));
  }
  std::string path() const { return folder_.path(); }
  fs::path file(const std::string& name) const { return folder_ / name; }
  void edit(const std::string& name, const std::function<void(std::string&)>& change) const {
    std::string bytes = read_bytes(file(name));
    change(bytes);
    write_bytes(file(name), bytes);
  }
  void edit_config(const std::function<void(nlohmann::json&)>& change) const {
    edit("config.json", [&](std::string& bytes) {
      auto config = nlohmann::json::parse(bytes);
      change(config);
      bytes = config.dump();
    });
  }
  /// Byte `offset` of a tensor's data.
  void set_byte(const std::string& tensor, std::size_t offset, char value) const {
    edit("model.safetensors", [&](std::string& bytes) {
      std::uint64_t length = 0;
      std::copy_n(bytes.data(), sizeof length, reinterpret_cast<char*>(&length));
      const auto header = nlohmann::json::parse(bytes.substr(8, length));
      bytes[8 + length + header.at(tensor).at("data_offsets").at(0).get<std::size_t>() + offset] = value;
    });
  }

 private:
  TempFolder folder_;
};

struct Broken {
  const char* name;
  std::function<void(const BrokenModel&)> edit;
  int code;
  std::vector<std::string> said;
};

std::vector<Broken> broken_models() {
  const auto cut = [](std::size_t bytes) {
    return [bytes](const BrokenModel& m) {
      m.edit("model.safetensors", [&](std::string& b) { b.resize(b.size() - bytes); });
    };
  };
  return {
      {"WeightsGone",
       [](const BrokenModel& m) { fs::remove(m.file("model.safetensors")); },
       kNotFound,
       {"model.safetensors"}},
      {"ConfigGone",
       [](const BrokenModel& m) { fs::remove(m.file("config.json")); },
       kNotFound,
       {"config.json"}},
      {"TokenizerGone",
       [](const BrokenModel& m) { fs::remove(m.file("tokenizer.json")); },
       kBadFile,
       {"tokenizer.json"}},
      {"CutByAByte", cut(1), kBadFile, {"model.safetensors", "cut short"}},
      {"CutByAPage", cut(4096), kBadFile, {"model.safetensors", "cut short"}},
      {"CutInHalf",
       [](const BrokenModel& m) {
         m.edit("model.safetensors", [](std::string& b) { b.resize(b.size() / 2); });
       },
       kBadFile,
       {"model.safetensors", "cut short"}},
      {"TrailingBytes",
       [](const BrokenModel& m) { m.edit("model.safetensors", [](std::string& b) { b += "xx"; }); },
       kBadFile,
       {"model.safetensors", "2 trailing bytes"}},
      {"HeaderFlipped",
       [](const BrokenModel& m) { m.edit("model.safetensors", [](std::string& b) { b[8] = 'x'; }); },
       kBadFile,
       {"model.safetensors", "JSON"}},
      {"HeaderTooLong",
       [](const BrokenModel& m) { m.edit("model.safetensors", [](std::string& b) { b[5] = 1; }); },
       kBadFile,
       {"model.safetensors"}},
      {"NotAModel",
       [](const BrokenModel& m) { write_bytes(m.file("model.safetensors"), "hello"); },
       kBadFile,
       {"5 bytes long"}},
      {"NanScale",
       [](const BrokenModel& m) { m.set_byte("layers.0.attn.wkv.scale", 0, '\xFF'); },
       kBadFile,
       {"layers.0.attn.wkv.scale", "not a finite number"}},
      {"NanExpertScale",
       [](const BrokenModel& m) { m.set_byte("layers.1.ffn.experts.3.w2.scale", 5, '\xFF'); },
       kBadFile,
       {"layers.1.ffn.experts.3.w2.scale", "scale 5"}},
      {"ConfigNotJson",
       [](const BrokenModel& m) { write_bytes(m.file("config.json"), "{"); },
       kBadFile,
       {"config.json"}},
      {"ConfigNotUtf8",
       [](const BrokenModel& m) { write_bytes(m.file("config.json"), "{\"a\":\"\xFF\"}"); },
       kBadFile,
       {"config.json"}},
      {"UnknownFamily",
       [](const BrokenModel& m) { m.edit_config([](auto& c) { c["model_type"] = "mamba"; }); },
       kUnsupported,
       {"mamba"}},
      {"UnknownKey",
       [](const BrokenModel& m) {
         m.edit_config([](auto& c) { c["text_config"]["attention_sink_scale"] = 2; });
       },
       kUnsupported,
       {"attention_sink_scale"}},
      {"AbsurdLayers",
       [](const BrokenModel& m) {
         m.edit_config([](auto& c) { c["text_config"]["num_hidden_layers"] = 1000000; });
       },
       kBadFile,
       {"num_hidden_layers"}},
      {"OneLayerMore",
       [](const BrokenModel& m) {
         m.edit_config([](auto& c) {
           c["text_config"]["num_hidden_layers"] =
               c["text_config"]["num_hidden_layers"].template get<int>() + 1;
           c["text_config"]["compress_ratios"].push_back(1);
         });
       },
       kBadFile,
       {"layers."}},
      {"OtherVocabulary",
       [](const BrokenModel& m) { m.edit_config([](auto& c) { c["text_config"]["vocab_size"] = 512; }); },
       kBadFile,
       {"vocab_size = 512"}},
      {"TokenizerNotJson",
       [](const BrokenModel& m) { write_bytes(m.file("tokenizer.json"), "[1,"); },
       kBadFile,
       {"tokenizer.json"}},
      {"TokenizerCut",
       [](const BrokenModel& m) { m.edit("tokenizer.json", [](std::string& b) { b.resize(b.size() / 2); }); },
       kBadFile,
       {"tokenizer.json"}},
  };
}

// One sentence, or one heading with a line for each problem; our name in front; no trace of the inside.
void expect_sentence(const Outcome& outcome) {
  EXPECT_THAT(outcome.err, StartsWith("seekline: "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("seekline: unexpected")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("json.exception")));
  EXPECT_TRUE(outcome.err.ends_with("\n"));
  std::istringstream lines(outcome.err);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) EXPECT_THAT(line, StartsWith("  - "));
}

class BrokenModelTest : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenModelTest, EndsEveryCommandWithTheSameSentence) {
  const BrokenModel model;
  GetParam().edit(model);
  const Outcome inspect = run_program({"inspect", "--model", model.path()});
  EXPECT_EQ(inspect.code, GetParam().code) << inspect.err;
  EXPECT_EQ(inspect.out, "");
  expect_sentence(inspect);
  for (const std::string& said : GetParam().said) EXPECT_THAT(inspect.err, HasSubstr(said));
  const Outcome run = run_program({"run", "--raw", "--model", model.path(), "--max-tokens", "1", "Hello"});
  EXPECT_EQ(run.code, GetParam().code) << run.err;
  EXPECT_EQ(run.out, "");
  expect_sentence(run);
}

INSTANTIATE_TEST_SUITE_P(All, BrokenModelTest, ::testing::ValuesIn(broken_models()),
                         [](const auto& info) { return std::string(info.param.name); });

struct Refused {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  std::string said;
};

std::vector<Refused> refused_calls() {
  const std::string tiny = golden_data("models/v41-tiny"),
                    cases = golden_data("models/v41-tiny") / "cases.json";
  return {
      {"NoCommand", {}, kUsage, "subcommand"},
      {"UnknownCommand", {"fly"}, kUsage, "fly"},
      {"UnknownFlag", {"plan", "--preset", "v41-flash", "--colour"}, kUsage, "--colour"},
      {"NoSuchFolder", {"inspect", "--model", "/nowhere/at/all"}, kNotFound, "/nowhere/at/all"},
      {"FolderIsAFile", {"inspect", "--model", cases}, kNotFound, "cases.json"},
      {"UnknownPreset", {"plan", "--preset", "v9"}, kUsage, "v9"},
      {"PlanOfNothing", {"plan"}, kUsage, "--preset"},
      {"NegativeThreads", {"run", "--model", tiny, "--threads", "-1", "x"}, kUsage, "threads"},
      {"ChunkOfNothing", {"run", "--model", tiny, "--chunk", "0", "x"}, kUsage, "--chunk"},
      {"ContextTooLong", {"run", "--model", tiny, "--context", "100000000", "x"}, kUsage, "context"},
      {"UnknownRows", {"run", "--model", tiny, "--rows", "int3", "x"}, kUsage, "int3"},
      {"NegativeTemperature", {"run", "--model", tiny, "--temperature", "-1", "x"}, kUsage, "temperature"},
      {"PromptDoesNotFit",
       {"run", "--raw", "--model", tiny, "--context", "2", "one two three four five six"},
       kLimit,
       "context"},
      {"CacheTooSmall", {"run", "--raw", "--model", tiny, "--cache-limit", "10", "one two"}, kLimit, "cache"},
      {"FileGone",
       {"run", "--raw", "--model", tiny, "--file", "/nowhere/prompt"},
       kNotFound,
       "/nowhere/prompt"},
      {"CasesGone",
       {"logits", "--model", tiny, "--cases", "/nowhere/cases", "--out", "/dev/null"},
       kNotFound,
       "/nowhere/cases"},
      {"CasesAreNotCases",
       {"logits", "--model", tiny, "--cases", tiny + "/config.json", "--out", "/dev/null"},
       kBadFile,
       "cases"},
      {"OutCannotBeWritten",
       {"logits", "--model", tiny, "--cases", cases, "--out", "/nowhere/out"},
       kIo,
       "/nowhere/out"},
      {"SynthOfNothing", {"synth", "--out", "/tmp"}, kUsage, "--preset or --config"},
      {"SynthOverACheckpoint",
       {"synth", "--config", tiny + "/config.json", "--out", "/dev/null/x"},
       kIo,
       "/dev/null/x"},
  };
}

class RefusedCallTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedCallTest, EndsWithASentenceAndItsCode) {
  const Outcome outcome = run_program(GetParam().arguments);
  EXPECT_EQ(outcome.code, GetParam().code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().said));
  expect_sentence(outcome);
}

INSTANTIATE_TEST_SUITE_P(All, RefusedCallTest, ::testing::ValuesIn(refused_calls()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ShrinkingFile, EndsARunningProgramWithASentence) {
  const BrokenModel model;
  const std::string weights = model.file("model.safetensors");
  // The program reads its prompt from a pipe that stays open until the file behind the mapping is gone.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string err = model.file("err");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], STDIN_FILENO);
    close(ends[1]);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execl(SEEKLINE_BINARY, "seekline", "run", "--raw", "--model", model.path().c_str(), "-", nullptr);
    _exit(127);
  }
  close(ends[0]);
  // The weights are mapped, and the program has nothing to do but to wait for its prompt.
  const std::string process = "/proc/" + std::to_string(child);
  const auto waits = [&] {
    return read_bytes(process + "/maps").find("model.safetensors") != std::string::npos &&
           read_bytes(process + "/status").find("State:\tS") != std::string::npos;
  };
  for (int calm = 0, looks = 0; calm < 20 && looks < 5000; ++looks) {
    calm = waits() ? calm + 1 : 0;
    usleep(10000);
  }
  ASSERT_EQ(truncate(weights.c_str(), 100), 0);
  ASSERT_EQ(write(ends[1], "Once upon", 9), 9);
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), kIo);
  EXPECT_THAT(read_bytes(err), HasSubstr("was cut short"));
}

}  // namespace
}  // namespace seekline::e2e
