// The controllers and the scheduler of Kueue, and nothing around them: no webhooks, certificates or job kinds.
//
// It is built inside Kueue's own module (see ../kueue.py) and takes Kueue's own Configuration, because what is to be compared
// depends on it: fair sharing, admission fair sharing and feature gates.
package main

import (
	"flag"
	"os"

	zaplog "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuealpha "sigs.k8s.io/kueue/apis/kueue/v1alpha1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/tas"
	tasindexer "sigs.k8s.io/kueue/pkg/controller/tas/indexer"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/fairsharing"
)

func must(err error) {
	if err != nil {
		ctrl.Log.Error(err, "cannot go on")
		os.Exit(1)
	}
}

func main() {
	file := flag.String("config", "", "a Configuration of Kueue")
	level := flag.Int("level", 0, "how much to log")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.Level(zaplog.NewAtomicLevelAt(zapcore.Level(-*level)))))

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueue.AddToScheme, kueuealpha.AddToScheme, configapi.AddToScheme,
	} {
		must(add(scheme))
	}
	options, cfg, err := config.Load(scheme, *file)
	must(err)
	must(config.LoadAndValidateFeatureGates("", cfg.FeatureGates).ToAggregate())
	options.LeaderElection = false
	options.HealthProbeBindAddress = "0"
	options.Metrics = metricsserver.Options{BindAddress: "0"}

	api := ctrl.GetConfigOrDie()
	api.QPS, api.Burst = *cfg.ClientConnection.QPS, int(*cfg.ClientConnection.Burst)
	manager, err := ctrl.NewManager(api, options)
	must(err)
	ctx := ctrl.SetupSignalHandler()
	must(indexer.Setup(ctx, manager.GetFieldIndexer()))
	must(tasindexer.SetupIndexes(ctx, manager.GetFieldIndexer()))

	requeuer, expected := qcache.NewRequeuer(), preemptexpectations.New()
	must(manager.Add(requeuer))
	queueOptions := []qcache.Option{qcache.WithPreemptionExpectations(expected)}
	cacheOptions := []schdcache.Option{}
	if cfg.FairSharing != nil {
		cacheOptions = append(cacheOptions, schdcache.WithFairSharing(fairsharing.Enabled(cfg.FairSharing)))
	}
	if cfg.AdmissionFairSharing != nil {
		queueOptions = append(queueOptions, qcache.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
		cacheOptions = append(cacheOptions, schdcache.WithAdmissionFairSharing(cfg.AdmissionFairSharing))
	}
	cache := schdcache.New(manager.GetClient(), cacheOptions...)
	queues := qcache.NewManager(manager.GetClient(), cache, requeuer, queueOptions...)
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)

	_, err = core.SetupControllers(manager, queues, cache, &cfg, core.SetupControllersOpts{PreemptionExpectations: expected})
	must(err)
	_, err = tas.SetupControllers(manager, queues, cache, &cfg, nil)
	must(err)
	must(manager.Add(scheduler.New(
		queues, cache, manager.GetClient(), manager.GetEventRecorder(constants.AdmissionName),
		scheduler.WithFairSharing(cfg.FairSharing),
		scheduler.WithAdmissionFairSharing(cfg.AdmissionFairSharing),
		scheduler.WithPreemptionExpectations(expected),
	)))
	must(manager.Start(ctx))
}
