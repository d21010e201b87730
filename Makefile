# metatune: needs a C compiler, libc and make; everything else skips by name.
#
#   make                 build/metatune, the command
#   make tune            tune three ResNet-18 layers on this machine
#                        (TRIALS=8 SEED=1 OUT=dir TIME=170 TUNE_FLAGS=--resume)
#   make test            all tests; ends with "N passed, N failed"
#   make test-core       the three headers' own tests
#   make test-tools      host target and command
#   make strict          warning matrix and symbol checks
#   make bench-core      speed of the headers (SHORT=1 for a quick look)
#   make pretrain        meta-train the shipped prior from the shipped data
#   make prior           measure on this machine, then meta-train from that
#   make bench-conv      kernels tuned, then timed against oneDNN, XNNPACK and
#                        OpenBLAS (SHORT=1: 12 layers in 8 minutes; FRESH=1
#                        tunes again; NETS="resnet18" CONV_TRIALS=64)
#   make bench-conv-threads   the gain by a second thread, against oneDNN's
#   make bench-conv-deep      64 trials against 1,000 on eight layers
#   make collect         measure by a plan, for hours, resumable
#   make train-folds     priors without each network family and vector width
#   make bench-learning  the contest on held-out layers and platforms
#                        (SHORT=1 for a quick look)
#   make bench-lookup    speed of lookup tables
#   make bench-records   speed of record logs
#   make examples        build and run the teaching path, examples/01 to 07
#   make example-mpi     a measuring farm and data-parallel meta-training
#   make example-opencl  OpenCL conv kernels, tuned
#   make install         headers, command, metatune.pc under PREFIX (DESTDIR);
#                        make uninstall takes them away
#   make clean

# two builds at a time unless the caller says otherwise; what is run, tested or
# timed is one recipe each, so only compilers run side by side
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j2
endif

CC ?= cc
CFLAGS ?= -O2
PREFIX ?= /usr/local
WARN = -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow \
       -Wdouble-promotion -Wundef -Wcast-qual -Wvla -Wfloat-equal \
       -Wmissing-prototypes -Wstrict-prototypes
INCLUDE = -I. -Itools -Itools/targets
DEPS = -MMD -MP
LIBS = -lm -pthread
# dlopen lives in libc nowadays, in libdl before
LIBDL := $(shell mkdir -p build && echo 'int main(void){return 0;}' \
           > build/dl.c && $(CC) build/dl.c -o build/dl.out -ldl \
           2>/dev/null && echo -ldl)

TRIALS ?= 64
SEED ?= 0
OUT ?= build/tuned
TIME ?= 170
TUNE_LAYERS ?= --layer resnet18/conv1 --layer resnet18/layer4 \
               --layer resnet18/layer2.0.down
TUNE_FLAGS ?=

# the shipped prior, once there is one
PRIOR_HEADER = examples/pretrained/metatune_prior_host.h
PRIOR := $(wildcard $(PRIOR_HEADER))
PRIOR_FLAGS := $(if $(PRIOR),-DMETATUNE_HAVE_PRIOR)

HEADERS = metatune.h metatune_gnn.h metatune_encode.h
TARGET_SRC := $(wildcard tools/nets.c tools/targets/host_*.c)
TOOL_SRC := $(wildcard tools/metatune.c tools/cmd_*.c tools/ui.c \
              tools/report_*.c tools/io_*.c tools/json.c \
              tools/export_conv.c tools/export_header.c \
              tools/train_*.c tools/collect_*.c tools/replay_*.c) \
              $(TARGET_SRC)
TOOL_OBJ := $(TOOL_SRC:%.c=build/obj/%.o)
TARGET_OBJ := $(TARGET_SRC:%.c=build/obj/%.o)

CORE_TESTS := $(patsubst tests/%.c,build/%,$(wildcard tests/test_encode.c \
                tests/test_gnn.c tests/test_metatune.c tests/test_records.c \
                tests/test_tiny.c tests/test_lookup.c \
                tests/test_strategy.c tests/test_schedule.c \
                tests/test_maml.c))
ifneq ($(wildcard tests/test_gnn.c),)
CORE_TESTS += build/test_gnn_double
endif
ifneq ($(wildcard tests/test_metatune.c),)
CORE_TESTS += build/test_metatune_double build/test_maml_double
endif
ifneq ($(wildcard tests/test_encode.c),)
CORE_TESTS += build/test_encode_double
endif
SCRIPT_TESTS = tests/test_cli.sh tests/test_readme.sh tests/test_lookup.sh \
               tests/test_report.sh tests/test_interop.sh tests/test_replay.sh \
               tests/test_blas.sh tests/test_targets_mpi.sh \
               tests/test_targets_opencl.sh
HOST_TESTS := $(patsubst tests/%.c,build/%,$(wildcard tests/test_host.c \
                tests/test_kernels.c tests/test_interop.c tests/test_export.c \
                tests/test_collect.c))

export METATUNE_SHARED ?= ../shared

all: build/metatune

build/metatune: $(TOOL_OBJ)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(TOOL_OBJ) $(LIBS) $(LIBDL)

build/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) -std=gnu99 $(CFLAGS) $(CPPFLAGS) $(WARN) $(INCLUDE) \
	    $(PRIOR_FLAGS) $(DEPS) -c -o $@ $<

# the prior comes and goes: what embeds it follows
build/obj/tools/cmd_model.o: build/prior.stamp
build/prior.stamp: FORCE
	@mkdir -p build
	@echo '$(PRIOR_FLAGS)' | cmp -s - $@ || echo '$(PRIOR_FLAGS)' > $@

tune: build/metatune
	@build/metatune tune $(TUNE_LAYERS) --trials $(TRIALS) --seed $(SEED) \
	    --time $(TIME) --cc $(firstword $(CC)) --out $(OUT) $(TUNE_FLAGS)

build/test_%: tests/test_%.c
	@mkdir -p build
	$(CC) -std=c99 $(CFLAGS) $(CPPFLAGS) $(WARN) $(INCLUDE) $(DEPS) -o $@ \
	    $< $(LDFLAGS) $(LIBS)

build/test_%_double: tests/test_%.c
	@mkdir -p build
	$(CC) -std=c99 $(CFLAGS) $(CPPFLAGS) $(WARN) $(INCLUDE) $(DEPS) \
	    -DMETATUNE_REAL=double -o $@ $< $(LDFLAGS) $(LIBS)

build/test_host build/test_kernels: build/test_%: tests/test_%.c $(TARGET_OBJ)
	$(CC) -std=gnu99 $(CFLAGS) $(CPPFLAGS) $(WARN) $(INCLUDE) $(DEPS) -o $@ \
	    $< $(TARGET_OBJ) $(LDFLAGS) $(LIBS) $(LIBDL)

build/test_interop build/test_export build/test_collect: build/test_%: \
                                      tests/test_%.c $(TOOL_OBJ)
	$(CC) -std=gnu99 $(CFLAGS) $(CPPFLAGS) $(WARN) $(INCLUDE) $(DEPS) -o $@ \
	    $< $(filter-out build/obj/tools/metatune.o,$(TOOL_OBJ)) $(LDFLAGS) \
	    $(LIBS) $(LIBDL)

test: build/metatune $(CORE_TESTS) $(HOST_TESTS)
	@CC='$(firstword $(CC))' sh tests/run.sh $(CORE_TESTS) $(HOST_TESTS) \
	    $(SCRIPT_TESTS)

test-core: $(CORE_TESTS)
	@sh tests/run.sh $(CORE_TESTS)

test-tools: build/metatune $(HOST_TESTS)
	@CC='$(firstword $(CC))' sh tests/run.sh $(HOST_TESTS) $(SCRIPT_TESTS)

strict:
	@sh tests/strict.sh

# all of it is built twice: what a vendor's baseline does, and this machine
BENCH_SRC = tools/bench/bench_core.c $(TARGET_SRC)
build/bench_core_%: $(BENCH_SRC) $(HEADERS)
	@mkdir -p build
	$(CC) -std=gnu99 $(BENCH_$*) $(CPPFLAGS) $(WARN) $(INCLUDE) -o $@ \
	    $(BENCH_SRC) $(LDFLAGS) $(LIBS) $(LIBDL)
BENCH_o2 = -O2
BENCH_native = -O3 -march=native

bench-core: build/bench_core_o2 build/bench_core_native
	@build/bench_core_o2 "-O2, baseline" $(if $(SHORT),--short)
	@build/bench_core_native "-O3 -march=native" $(if $(SHORT),--short)

# tuned kernels against libraries: those that are installed, which is looked
# up only when this is the goal
CONV_BENCH = build/bench_conv/bench_conv
CONV_SRC = $(addprefix tools/bench/bench_,conv.c ours.c report.c time.c)
ifneq ($(filter bench-conv% $(CONV_BENCH),$(MAKECMDGOALS)),)
HASH := \#
# header, statement, flags, libraries
have = $(shell mkdir -p build && printf '%s\n' '$(HASH)include <$(1)>' \
         'int main(void) { $(2); return 0; }' > build/have.c && \
         $(CC) $(3) build/have.c -o build/have.out $(4) 2>/dev/null && echo 1)
BLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
BLAS_LIBS := $(or $(shell pkg-config --libs openblas 2>/dev/null),-lopenblas)
ifneq ($(call have,dnnl.h,dnnl_version(),,-ldnnl),)
CONV_SRC += tools/bench/bench_onednn.c
RIVAL_FLAGS += -DBENCH_HAVE_ONEDNN
RIVAL_LIBS += -ldnnl
endif
ifneq ($(call have,xnnpack.h,xnn_initialize(0),,-lXNNPACK -lpthreadpool),)
CONV_SRC += tools/bench/bench_xnnpack.c
RIVAL_FLAGS += -DBENCH_HAVE_XNNPACK
RIVAL_LIBS += -lXNNPACK -lpthreadpool
endif
BLAS_CALL = openblas_set_num_threads(1)
ifneq ($(call have,cblas.h,$(BLAS_CALL),$(BLAS_CFLAGS),$(BLAS_LIBS)),)
CONV_SRC += tools/bench/bench_openblas.c
RIVAL_FLAGS += -DBENCH_HAVE_OPENBLAS $(BLAS_CFLAGS)
RIVAL_LIBS += $(BLAS_LIBS)
endif
endif

build/bench_conv/rivals.stamp: FORCE
	@mkdir -p $(@D)
	@echo '$(RIVAL_FLAGS)' | cmp -s - $@ || echo '$(RIVAL_FLAGS)' > $@

$(CONV_BENCH): $(CONV_SRC) $(wildcard tools/bench/*.h) $(HEADERS) \
               $(TOOL_OBJ) build/bench_conv/rivals.stamp
	$(CC) -std=gnu99 -O2 $(CPPFLAGS) $(WARN) $(INCLUDE) $(RIVAL_FLAGS) \
	    -o $@ $(CONV_SRC) \
	    $(filter-out build/obj/tools/metatune.o,$(TOOL_OBJ)) $(LDFLAGS) \
	    $(RIVAL_LIBS) $(LIBS) $(LIBDL) -lpthread

bench-conv bench-conv-threads bench-conv-deep: build/metatune $(CONV_BENCH)
	@CC='$(firstword $(CC))' SHORT='$(SHORT)' FRESH='$(FRESH)' \
	    NETS='$(NETS)' TRIALS='$(CONV_TRIALS)' \
	    sh tools/bench/bench_conv.sh \
	    $(if $(filter bench-conv,$@),best,$(@:bench-conv-%=%))

# the shipped prior, again from the shipped measurements (some minutes); layers
# of the contest are not among them, and are left out where they are
STEPS ?= 16000
SEEDS ?= 1
PRIOR_DATA ?= $(wildcard tools/data/train_*.txt tools/data/host_*.txt)
CONTEST = $(shell sed '/^\#/d' tools/data/layers/contest12.txt)
pretrain: build/metatune
	@mkdir -p build/prior examples/pretrained
	build/metatune train $(PRIOR_DATA) --steps $(STEPS) --seeds $(SEEDS) \
	    --seed 0 $(CONTEST:%=--holdout %) --out build/prior/host.blob \
	    --header $(PRIOR_HEADER) --name metatune_prior_host

# a prior of this machine: measure first (a quarter of an hour), then the same
SETTINGS ?= 100
PRIOR_NETS ?= resnet18 vgg16 squeezenet1.1 alexnet mobilenet_v2
prior: build/metatune
	@mkdir -p build/prior
	build/metatune collect $(PRIOR_NETS:%=--net %) --settings $(SETTINGS) \
	    --seed 1 --out build/prior/host.txt --resume
	@$(MAKE) pretrain PRIOR_DATA=build/prior/host.txt

# measurements by the plan (hours, resumable), and the priors of the held-out
# folds that the contest replays
PLAN ?= tools/data/plan.txt
collect: build/metatune
	@COLLECT_FLAGS='$(COLLECT_FLAGS)' sh tools/collect.sh $(PLAN)

TRAIN_DATA ?= $(wildcard tools/data/train_*.txt)
FOLDS ?= tools/data/folds
train-folds: build/metatune
	@STEPS='$(FOLD_STEPS)' SEEDS='$(FOLD_SEEDS)' \
	    sh tools/train_folds.sh $(FOLDS) $(TRAIN_DATA)

build/bench_learning/bench_learning: tools/bench/bench_learning.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) -std=gnu99 -O2 $(CPPFLAGS) $(WARN) -DMETATUNE_ENCODE_IMPLEMENTATION \
	    -o $@ $< $(LDFLAGS) $(LIBS)

bench-learning: build/metatune build/bench_learning/bench_learning
	@SHORT='$(SHORT)' FOLDS='$(FOLDS)' sh tools/bench/bench_learning.sh

# headers only: nothing to link but libm
VERSION := $(shell sed -n 's/^.define METATUNE_VERSION_[A-Z]* *//p' \
             metatune_encode.h | paste -s -d. -)
PC_DIR ?= $(PREFIX)/share/pkgconfig
install: build/metatune
	mkdir -p $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include \
	    $(DESTDIR)$(PC_DIR)
	cp build/metatune $(DESTDIR)$(PREFIX)/bin/
	cp $(HEADERS) $(DESTDIR)$(PREFIX)/include/
	printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' \
	    'Name: metatune' 'Description: header-only auto-tuner' \
	    'Version: $(VERSION)' 'Cflags: -I$${includedir}' 'Libs: -lm' \
	    > $(DESTDIR)$(PC_DIR)/metatune.pc

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/metatune $(DESTDIR)$(PC_DIR)/metatune.pc \
	    $(HEADERS:%=$(DESTDIR)$(PREFIX)/include/%)

# the teaching path: each builds, runs, and fails if its own claim does
EXAMPLES := $(patsubst examples/%.c,build/examples/%,\
              $(wildcard examples/quickstart.c examples/0*.c))
build/examples/%: examples/%.c
	@mkdir -p $(@D)
	$(CC) -std=c99 $(CFLAGS) $(CPPFLAGS) $(WARN) -I. $(DEPS) -o $@ $< \
	    $(LDFLAGS) $(LIBS)

examples: $(EXAMPLES)
	@for e in $(EXAMPLES); do echo "== $$e"; $$e || exit 1; done

# targets that need a package: they say which
MPICC ?= mpicc
build/mpi/%: examples/mpi/%.c examples/child.h examples/sim.h \
             $(HEADERS)
	@mkdir -p $(@D)
	@command -v $(MPICC) >/dev/null && command -v mpirun >/dev/null || { \
	    echo "example-mpi needs mpicc and mpirun: apt-get install" \
	        "libopenmpi-dev openmpi-bin"; exit 1; }
	$(MPICC) -std=gnu99 $(CFLAGS) $(CPPFLAGS) $(WARN) -Wno-unused-function \
	    -I. -o $@ $< $(LDFLAGS) -lm

example-mpi: build/mpi/farm build/mpi/train
	@sh examples/mpi/run.sh build/mpi

# pocl keeps what it compiled in a directory that must exist
OPENCL_FLAGS ?=
build/opencl/conv: examples/opencl/conv.c examples/child.h $(HEADERS) \
                   $(PRIOR_HEADER)
	@mkdir -p $(@D)/cache
	@echo '#include <CL/cl.h>' | $(CC) -E - >/dev/null 2>&1 || { \
	    echo "example-opencl needs OpenCL: apt-get install" \
	        "ocl-icd-opencl-dev pocl-opencl-icd"; exit 1; }
	$(CC) -std=gnu99 $(CFLAGS) $(CPPFLAGS) $(WARN) -Wno-unused-function \
	    -I. -o $@ $< $(LDFLAGS) -lOpenCL -lm

example-opencl: build/opencl/conv
	@POCL_CACHE_DIR=$${POCL_CACHE_DIR:-$(CURDIR)/build/opencl/cache} \
	    build/opencl/conv --log build/opencl/conv.jsonl $(OPENCL_FLAGS)

build/bench_lookup build/bench_records: build/%: tools/bench/%.c $(HEADERS)
	@mkdir -p build
	$(CC) -std=gnu99 -O2 $(CPPFLAGS) $(WARN) -o $@ $< $(LDFLAGS) $(LIBS)

bench-lookup: build/bench_lookup
	@build/bench_lookup

bench-records: build/bench_records
	@build/bench_records

clean:
	rm -rf build

FORCE:
.PHONY: all tune test test-core test-tools strict bench-core pretrain prior \
        install uninstall bench-conv bench-conv-threads bench-conv-deep \
        examples example-mpi example-opencl bench-lookup bench-records \
        collect train-folds bench-learning clean FORCE

-include $(wildcard build/*.d build/examples/*.d) $(TOOL_OBJ:.o=.d)
