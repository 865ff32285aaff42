"""The factor models of Grosse, Ghahramani and Adams (2015), and a race of estimators."""
