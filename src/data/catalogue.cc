#include "data/catalogue.h"

#include <algorithm>
#include <cstdlib>

namespace tacit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoLicence = "none stated upstream";
constexpr const char* kAdult =
    "Becker & Kohavi (1996), UCI Adult, doi:10.24432/C5XW20; binarised by Platt (1998), Sequential Minimal "
    "Optimization; LIBSVM data: Chang & Lin (2011)";

std::vector<std::string> Libsvm(const std::string& file) {
  return {"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/" + file};
}
std::vector<std::string> Mnist(const std::string& file) {
  return {"https://ossci-datasets.s3.amazonaws.com/mnist/" + file,
          "https://storage.googleapis.com/cvdf-datasets/mnist/" + file};
}
std::vector<std::string> Fashion(const std::string& file) {
  return {"https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/" + file,
          "https://storage.googleapis.com/tensorflow/tf-keras-datasets/" + file};
}
std::vector<std::string> Heart(const std::string& file) {
  return {"https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/" + file};
}

std::vector<KnownSet> MakeCatalogue() {
  std::vector<KnownSet> sets = {
      {.name = "a1a",
       .features = 123,
       .rows = 1605,
       .train = {{"libsvm_extra/a1a.bz2", 114818,
                  "eb54c45f1bdb51286f803dd092eb8202b44637a858fc6c4e533a2d64a0d94b4e", Libsvm("a1a")}},
       .citation = kAdult,
       .licence = "CC BY 4.0 (UCI)",
       .note = "the largest index in the file is 119; 123 is the number of features of the family a1a … a9a"},
      {.name = "a6a",
       .features = 122,
       .rows = 11220,
       .train = {{"a6a/a6a.bz2", 802800, "6023becedbd392fdc6a62ad94b60c9363149370d4c57ef13949fcc765842a031",
                  Libsvm("a6a")}},
       .citation = kAdult,
       .licence = "CC BY 4.0 (UCI)"},
      {.name = "a9a",
       .features = 123,
       .rows = 32561,
       .test_rows = 16281,
       .train = {{"a9a/a9a.bz2", 2329875, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906",
                  Libsvm("a9a")}},
       .test = {{"a9a/a9a.t.bz2", 1164628, "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9",
                 Libsvm("a9a.t")}},
       .citation = kAdult,
       .licence = "CC BY 4.0 (UCI)"},
      {.name = "cifar10",
       .task = Task::kMulticlass,
       .format = Format::kCifar,
       .features = 3072,
       .classes = 10,
       .rows = 30000,
       .test_rows = 10000,
       .scale = 1.0 / 255,
       .train = {{"cifar10/data_batch_1.bin.xz", 30730000,
                  "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                 {"cifar10/data_batch_2.bin.xz", 30730000,
                  "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                 {"cifar10/data_batch_3.bin.xz", 30730000,
                  "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"}},
       .test = {{"cifar10/test_batch.bin.xz", 30730000,
                 "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
       .citation = "Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images",
       .licence = kNoLicence,
       .note = "batches 1 to 3 of the 5 training batches, 30,000 images: say so with any result. Unpack "
               "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz and put the .bin files in cifar10/"},
      {.name = "fashion_mnist",
       .task = Task::kMulticlass,
       .format = Format::kIdx,
       .features = 784,
       .classes = 10,
       .rows = 60000,
       .test_rows = 10000,
       .scale = 1.0 / 255,
       .train = {{"fashion_mnist/train-images-idx3-ubyte.gz", 47040016,
                  "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                  Fashion("train-images-idx3-ubyte.gz")},
                 {"fashion_mnist/train-labels-idx1-ubyte.gz", 60008,
                  "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                  Fashion("train-labels-idx1-ubyte.gz")}},
       .test = {{"fashion_mnist/t10k-images-idx3-ubyte.gz", 7840016,
                 "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                 Fashion("t10k-images-idx3-ubyte.gz")},
                {"fashion_mnist/t10k-labels-idx1-ubyte.gz", 10008,
                 "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                 Fashion("t10k-labels-idx1-ubyte.gz")}},
       .citation = "Xiao, Rasul & Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747",
       .licence = "MIT",
       .note = "also found where Debian's package dataset-fashion-mnist installs it"},
      {.name = "heart_disease",
       .format = Format::kCsv,
       .features = 13,
       .classes = 5,
       .rows = 920,
       .positive = 0.0,
       .columns = {"age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
                   "slope", "ca", "thal", "num"},
       .train = {{"heart_disease/processed.cleveland.data.gz", 18461,
                  "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
                  Heart("processed.cleveland.data")},
                 {"heart_disease/processed.hungarian.data.gz", 10263,
                  "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
                  Heart("processed.hungarian.data")},
                 {"heart_disease/processed.switzerland.data.gz", 4109,
                  "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
                  Heart("processed.switzerland.data")},
                 {"heart_disease/processed.va.data.gz", 6737,
                  "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
                  Heart("processed.va.data")}},
       .citation = "Janosi, Steinbrunn, Pfisterer & Detrano (1988), UCI Heart Disease, doi:10.24432/C52P4X; "
                   "federated "
                   "use: FLamby (Ogier du Terrail et al. 2022)",
       .licence = "CC BY 4.0 (UCI)",
       .note = "four hospitals, one group each; labels 0 (healthy) to 4, healthy becomes +1; missing values "
               "become 0"},
      {.name = "heart_scale",
       .features = 13,
       .rows = 270,
       .train = {{"heart_scale/heart_scale.bz2", 27670,
                  "5defa0a4c4c5bdaf3f55ae3828310252e8565c13ee37ce279e0b86d82e7f4ce9", Libsvm("heart_scale")}},
       .citation = "UCI Statlog (Heart), scaled to [-1, 1]; LIBSVM data: Chang & Lin (2011)",
       .licence = "CC BY 4.0 (UCI)"},
      {.name = "ijcnn1",
       .features = 22,
       .rows = 49990,
       .test_rows = 91701,
       .train = {{"ijcnn1/ijcnn1.bz2", 7744897,
                  "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f", Libsvm("ijcnn1.bz2")}},
       .test = {{"ijcnn1/ijcnn1.t.bz2", 14213968,
                 "e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8", Libsvm("ijcnn1.t.bz2")}},
       .citation = "Prokhorov (2001), IJCNN challenge; transformation of Chang & Lin (2001); LIBSVM data",
       .licence = kNoLicence},
      {.name = "mnist",
       .task = Task::kMulticlass,
       .format = Format::kIdx,
       .features = 784,
       .classes = 10,
       .rows = 60000,
       .test_rows = 10000,
       .scale = 1.0 / 255,
       .train = {{"mnist/train-images-idx3-ubyte.gz", 47040016,
                  "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                  Mnist("train-images-idx3-ubyte.gz")},
                 {"mnist/train-labels-idx1-ubyte.gz", 60008,
                  "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                  Mnist("train-labels-idx1-ubyte.gz")}},
       .test = {{"mnist/t10k-images-idx3-ubyte.gz", 7840016,
                 "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                 Mnist("t10k-images-idx3-ubyte.gz")},
                {"mnist/t10k-labels-idx1-ubyte.gz", 10008,
                 "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                 Mnist("t10k-labels-idx1-ubyte.gz")}},
       .citation = "LeCun, Bottou, Bengio & Haffner (1998), Proc. IEEE 86(11)",
       .licence = "CC BY-SA 3.0"},
      {.name = "mushrooms",
       .features = 112,
       .rows = 8124,
       .train = {{"mushrooms/mushrooms.bz2", 879712,
                  "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538", Libsvm("mushrooms")}},
       .citation = "Schlimmer (1987), UCI Mushroom, doi:10.24432/C5959T; LIBSVM data: Chang & Lin (2011)",
       .licence = "CC BY 4.0 (UCI)",
       .note = "labels are spelt 1 and 2; 1 becomes +1"},
      {.name = "phishing",
       .features = 68,
       .rows = 11055,
       .train = {{"phishing/phishing.bz2", 3620168,
                  "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a", Libsvm("phishing")}},
       .citation =
           "Mohammad, Thabtah & McCluskey (2012), UCI Phishing Websites; LIBSVM data: Chang & Lin (2011)",
       .licence = "CC BY 4.0 (UCI)",
       .note = "labels are spelt 0 and 1; 1 becomes +1"},
      {.name = "w8a",
       .features = 300,
       .rows = 49749,
       .test_rows = 14951,
       .train = {{"w8a/w8a.bz2", 3478238, "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2",
                  Libsvm("w8a")}},
       .test = {{"w8a/w8a.t.bz2", 1045870, "618929ecb01bebb841daec4cae4aa07b97832d29b08652452775598929547fde",
                 Libsvm("w8a.t")}},
       .citation =
           "Platt (1998), Sequential Minimal Optimization (web pages); LIBSVM data: Chang & Lin (2011)",
       .licence = kNoLicence},
  };
  return sets;
}

// The path as given, or with another packing suffix.
bool Exists(const fs::path& path, fs::path& found) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    found = path;
    return true;
  }
  fs::path bare = path;
  const auto suffix = path.extension();
  if (suffix == ".gz" || suffix == ".bz2" || suffix == ".xz") bare.replace_extension();
  for (const char* other : {"", ".gz", ".bz2", ".xz"}) {
    fs::path candidate = bare;
    candidate += other;
    if (fs::is_regular_file(candidate, ignored)) {
      found = candidate;
      return true;
    }
  }
  return false;
}

constexpr std::string_view kFashion = "fashion_mnist/";
constexpr const char* kFashionPackage = "/usr/share/datasets/fashion-mnist";

}  // namespace

const std::vector<KnownSet>& Catalogue() {
  static const std::vector<KnownSet> sets = MakeCatalogue();
  return sets;
}

const KnownSet* FindSet(std::string_view name) {
  for (const KnownSet& s : Catalogue())
    if (s.name == name) return &s;
  return nullptr;
}

Result<fs::path> FindData(std::string_view relative) {
  const fs::path path(relative);
  if (relative.empty() || path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    return Fail(Code::kInvalidArgument,
                "'{}': must be a path below TACIT_DATA, without '..'; give other files by path", relative);
  const char* root = std::getenv("TACIT_DATA");
  fs::path found;
  if (root != nullptr && *root != '\0' && Exists(fs::path(root) / path, found)) return found;
  if (relative.starts_with(kFashion) &&
      Exists(fs::path(kFashionPackage) / relative.substr(kFashion.size()), found))
    return found;
  if (root == nullptr || *root == '\0')
    return Fail(Code::kNotFound,
                "{}: the environment variable TACIT_DATA is not set; set it to the data directory", relative);
  return Fail(Code::kNotFound, "{}: not found in TACIT_DATA = {}; check the directory or put the file there",
              relative, root);
}

Result<LoadOptions> LoadOptionsFor(const KnownSet& set, Part part) {
  const std::vector<KnownFile>& files = part == Part::kTrain ? set.train : set.test;
  if (set.train.empty())
    return Fail(Code::kUnsupported, "{}: known but not readable: {}", set.name, set.note);
  if (files.empty())
    return Fail(Code::kUnsupported,
                "{}: has no test part; hold out rows of the train part with rows and skip", set.name);
  std::vector<fs::path> found;
  for (const KnownFile& f : files) {
    auto path = FindData(f.path);
    if (!path.ok()) {
      if (path.error().code != Code::kNotFound) return path.error();
      const char* root = std::getenv("TACIT_DATA");
      const bool set_root = root != nullptr && *root != '\0';
      return Fail(Code::kNotFound,
                  "data set {}: {} is not in {}; run `tacit data fetch {}` or set TACIT_DATA to where it is",
                  set.name, f.path, set_root ? root : "any known place (TACIT_DATA is not set)", set.name);
    }
    found.push_back(*path);
  }
  LoadOptions o;
  o.format = set.format;
  o.features = set.features;
  o.csv.names = set.columns;
  o.file = found[0];
  if (set.format == Format::kIdx) {
    TACIT_CHECK(found.size() == 2);
    o.labels = found[1];
  } else {
    o.more.assign(found.begin() + 1, found.end());
  }
  return o;
}

PreprocessOptions PreprocessOptionsFor(const KnownSet& set) {
  PreprocessOptions o;
  o.scale = set.scale;
  switch (set.task) {
    case Task::kBinary: o.labels = LabelKind::kBinary; break;
    case Task::kMulticlass: o.labels = LabelKind::kClass; break;
    case Task::kRegression: o.labels = LabelKind::kReal; break;
  }
  o.positive = set.positive;
  o.classes = set.classes;
  return o;
}

}  // namespace tacit
